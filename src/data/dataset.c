/* dataset.c - windows over a token cache, and when the cache must be built. */
#include "data/dataset.h"

#include "base/hash.h"
#include "base/philox.h"
#include "data/cache.h"
#include "data/pack.h"
#include "io/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CACHE_VERSION 1

struct hil_dataset {
    hil_cache *cache;
    int64_t seq;
    int64_t begin; /* first window in the cache */
    int64_t windows;
    int64_t tokens;
    uint32_t *scratch;
};

/* What is asked for, and where its cache lies. */
struct request {
    const char *const *paths;
    size_t count;
    const hil_dataset_options *options;
    char cache_path[HIL_PATH_MAX];
    uint64_t key;
};

static hil_status check_options(const hil_dataset_options *options, size_t count)
{
    if (count == 0) return hil_fail(HIL_ERR_USAGE, "no data files given");
    if (options->seq < 1 || options->seq > INT32_MAX)
        return hil_fail(HIL_ERR_USAGE, "a sequence length of %lld is out of range",
                        (long long)options->seq);
    if (options->vocab < 1 || options->vocab > (int64_t)HIL_MARK_ID)
        return hil_fail(HIL_ERR_USAGE, "a vocabulary of %lld is out of range",
                        (long long)options->vocab);
    if (options->eot >= options->vocab)
        return hil_fail(HIL_ERR_INPUT, "end-of-text id %lld is outside the vocabulary of %lld",
                        (long long)options->eot, (long long)options->vocab);
    if (options->tokenizer && !options->tokenizer_path)
        return hil_fail(HIL_ERR_USAGE, "a tokenizer needs the path of its file");
    return HIL_OK;
}

static hil_status hash_file(uint64_t *hash, const char *path)
{
    hil_map map;
    HIL_TRY(hil_map_open(&map, path));
    *hash = hil_hash(*hash, map.data, map.size);
    hil_map_close(&map);
    return HIL_OK;
}

/* The options and paths name the cache file. */
static hil_status hash_request(const struct request *request, uint64_t *hash)
{
    const hil_dataset_options *options = request->options;
    const int64_t numbers[] = {CACHE_VERSION, options->vocab, options->eot,
                               options->tokenizer != NULL};
    *hash = hil_hash(0, hil_version(), strlen(hil_version()));
    *hash = hil_hash(*hash, numbers, sizeof numbers);
    if (options->tokenizer) HIL_TRY(hash_file(hash, options->tokenizer_path));
    for (size_t i = 0; i < request->count; ++i)
        *hash = hil_hash(*hash, request->paths[i], strlen(request->paths[i]));
    return HIL_OK;
}

/* The state of the files says whether its content is still theirs. */
static hil_status hash_files(const struct request *request, uint64_t *hash)
{
    for (size_t i = 0; i < request->count; ++i) {
        struct stat info;
        if (stat(request->paths[i], &info) != 0)
            return hil_fail(HIL_ERR_IO, "cannot open %s: %s", request->paths[i], strerror(errno));
        const int64_t numbers[] = {
            (int64_t)info.st_dev, (int64_t)info.st_ino, (int64_t)info.st_size, info.st_mtim.tv_sec,
            info.st_mtim.tv_nsec, info.st_ctim.tv_sec,  info.st_ctim.tv_nsec};
        *hash = hil_hash(*hash, numbers, sizeof numbers);
    }
    return HIL_OK;
}

static hil_status find_cache(struct request *request)
{
    uint64_t hash;
    char name[64];
    HIL_TRY(hash_request(request, &hash));
    snprintf(name, sizeof name, "tokens-%016llx.bin", (unsigned long long)hash);
    HIL_TRY(hil_path_join(request->cache_path, request->options->cache_dir, name));
    request->key = hash;
    return hash_files(request, &request->key);
}

static hil_status check_size(const struct request *request, int64_t tokens)
{
    int64_t seq = request->options->seq;
    if (tokens >= seq) return HIL_OK;
    char more[48] = "";
    if (request->count > 1)
        snprintf(more, sizeof more, " (with %zu more files)", request->count - 1);
    if (tokens == 0)
        return hil_fail(HIL_ERR_INPUT, "%s%s is empty: no tokens to train on", request->paths[0],
                        more);
    return hil_fail(HIL_ERR_INPUT, "%s%s has %lld tokens, fewer than one sequence of %lld",
                    request->paths[0], more, (long long)tokens, (long long)seq);
}

static hil_status write_cache(const struct request *request)
{
    hil_cache_writer *writer;
    HIL_TRY(hil_cache_writer_open(&writer, request->cache_path, request->key));
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_pack_files(writer, request->paths, request->count, request->options));
    HIL_TRY_DONE(check_size(request, hil_cache_writer_tokens(writer)));
    uint64_t key;
    HIL_TRY_DONE(hash_request(request, &key));
    HIL_TRY_DONE(hash_files(request, &key));
    if (key != request->key)
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s changed while it was being read",
                              request->count > 1 ? "a data file" : request->paths[0]));
    HIL_TRY_DONE(hil_cache_writer_commit(writer));
done:
    hil_cache_writer_close(writer);
    return status;
}

/* How much of `folder` exists already: a failure takes away what it had to create. */
static size_t existing_part(const char *folder)
{
    char part[HIL_PATH_MAX];
    size_t size = strlen(folder);
    if (size >= sizeof part) return size;
    memcpy(part, folder, size + 1);
    while (size && !hil_file_exists(part)) {
        while (size && part[size - 1] != '/') --size;
        while (size && part[size - 1] == '/') --size;
        part[size] = 0;
    }
    return size;
}

static void remove_created(const char *folder, size_t existed)
{
    char part[HIL_PATH_MAX];
    size_t size = strlen(folder);
    memcpy(part, folder, size + 1);
    while (size > existed && rmdir(part) == 0) {
        while (size && part[size - 1] != '/') --size;
        while (size && part[size - 1] == '/') --size;
        part[size] = 0;
    }
}

static hil_status build_cache(const struct request *request)
{
    const char *folder = request->options->cache_dir;
    size_t existed = existing_part(folder);
    hil_status status = hil_folder_create(folder);
    if (status == HIL_OK && existed < strlen(folder) && chmod(folder, 0700) != 0)
        status = hil_fail(HIL_ERR_IO, "cannot protect %s: %s", folder, strerror(errno));
    if (status == HIL_OK) status = write_cache(request);
    if (status != HIL_OK) remove_created(folder, existed);
    return status;
}

hil_status hil_dataset_open(hil_dataset **out, const char *const *paths, size_t count,
                            const hil_dataset_options *options)
{
    *out = NULL;
    HIL_TRY(check_options(options, count));
    struct request request = {.paths = paths, .count = count, .options = options};
    HIL_TRY(find_cache(&request));
    hil_dataset *dataset;
    HIL_TRY(HIL_ALLOC(1, &dataset));
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_cache_open(&dataset->cache, request.cache_path, request.key));
    if (!dataset->cache) {
        HIL_TRY_DONE(build_cache(&request));
        HIL_TRY_DONE(hil_cache_open(&dataset->cache, request.cache_path, request.key));
    }
    if (!dataset->cache)
        HIL_TRY_DONE(hil_fail(HIL_ERR_IO, "token cache %s vanished as soon as it was written",
                              request.cache_path));
    dataset->tokens = hil_cache_tokens(dataset->cache);
    HIL_TRY_DONE(check_size(&request, dataset->tokens));
    dataset->seq = options->seq;
    dataset->windows = dataset->tokens / dataset->seq;
    HIL_TRY_DONE(HIL_ALLOC(hil_cache_scratch(dataset->seq), &dataset->scratch));
    *out = dataset;
    dataset = NULL;
done:
    hil_dataset_close(dataset);
    return status;
}

void hil_dataset_close(hil_dataset *dataset)
{
    if (!dataset) return;
    hil_cache_close(dataset->cache);
    hil_free(dataset->scratch);
    hil_free(dataset);
}

int64_t hil_dataset_tokens(const hil_dataset *dataset)
{
    return dataset->tokens;
}

int64_t hil_dataset_windows(const hil_dataset *dataset)
{
    return dataset->windows;
}

hil_status hil_dataset_hold_out(hil_dataset *dataset, double fraction, hil_dataset **held)
{
    *held = NULL;
    if (!(fraction > 0 && fraction < 1))
        return hil_fail(HIL_ERR_USAGE, "the fraction held out must lie between 0 and 1, not %g",
                        fraction);
    int64_t out = llround((double)dataset->windows * fraction);
    if (out < 1) out = 1;
    if (out >= dataset->windows)
        return hil_fail(HIL_ERR_INPUT,
                        "holding out %g of %lld windows leaves nothing to train on: give more data "
                        "or shorter sequences",
                        fraction, (long long)dataset->windows);
    hil_dataset *rest;
    HIL_TRY(HIL_ALLOC(1, &rest));
    hil_status status = HIL_ALLOC(hil_cache_scratch(dataset->seq), &rest->scratch);
    if (status != HIL_OK) {
        hil_free(rest);
        return status;
    }
    rest->cache = hil_cache_share(dataset->cache);
    rest->seq = dataset->seq;
    rest->windows = out;
    dataset->windows -= out;
    rest->begin = dataset->begin + dataset->windows;
    dataset->tokens = dataset->windows * dataset->seq;
    rest->tokens = rest->windows * rest->seq;
    *held = rest;
    return HIL_OK;
}

hil_status hil_dataset_window(hil_dataset *dataset, int64_t index, const hil_window *out)
{
    assert(index >= 0 && index < dataset->windows);
    const uint32_t *marked;
    int64_t seq = dataset->seq;
    HIL_TRY(hil_cache_read(dataset->cache, (dataset->begin + index) * seq, seq, dataset->scratch,
                           &marked));
    int32_t first = 0;
    for (int32_t t = 0; t < seq; ++t) {
        int32_t token = (int32_t)(marked[t] & HIL_MARK_ID);
        if (marked[t] & HIL_MARK_START) first = t;
        if (t) out->target[t - 1] = marked[t] & HIL_MARK_SILENT ? -1 : token;
        out->token[t] = token;
        out->position[t] = t - first;
        out->first[t] = first;
    }
    out->target[seq - 1] = -1;
    return HIL_OK;
}

int64_t hil_dataset_pick(const hil_dataset *dataset, hil_order order, uint64_t seed, int64_t n)
{
    int64_t epoch = n / dataset->windows, index = n % dataset->windows;
    if (order == HIL_ORDER_FILE) return index;
    uint32_t word[4];
    hil_philox(seed, (uint64_t)epoch, 0, word);
    uint64_t key = ((uint64_t)word[1] << 32) | word[0];
    return (int64_t)hil_philox_permute(key, (uint64_t)dataset->windows, (uint64_t)index);
}
