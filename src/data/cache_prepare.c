/* cache_prepare.c - decides by files and options which cache to use and whether to build it. */
#include "data/cache_prepare.h"

#include "base/hash.h"
#include "data/files.h"
#include "data/pack.h"
#include "io/file.h"
#include "hilbert/version.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CACHE_VERSION 3
#define LEFTOVER_SECONDS 3600

/* The files and options of a dataset, and the cache for them. */
struct request {
    const char *const *given; /* files, folders and patterns */
    size_t given_count;
    hil_files files; /* the expanded list; empty if another process prepared the cache */
    const hil_dataset_options *options;
    char cache_path[HIL_PATH_MAX];
    uint64_t key;
};

static hil_status check_options(const hil_dataset_options *options, size_t count)
{
    assert(options->cache_dir);
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
    return HIL_OK;
}

/* The name of the cache file depends on the options and the given paths. */
static uint64_t hash_request(const struct request *request)
{
    const hil_dataset_options *options = request->options;
    const int64_t numbers[] = {CACHE_VERSION,
                               options->vocab,
                               options->eot,
                               options->bos,
                               options->tokenizer != NULL,
                               (int64_t)options->tokenizer_key,
                               options->format,
                               options->answers};
    uint64_t hash = hil_hash(0, hil_version(), strlen(hil_version()));
    hash = hil_hash(hash, numbers, sizeof numbers);
    for (const int64_t *stop = options->stops; stop && *stop >= 0; ++stop)
        hash = hil_hash(hash, stop, sizeof *stop);
    for (size_t i = 0; i < request->given_count; ++i)
        hash = hil_hash(hash, request->given[i], strlen(request->given[i]));
    return hash;
}

/* The cache's key adds the chat template, and the list of files, their sizes and times: it changes
   when they do. */
static hil_status hash_files(const struct request *request, uint64_t *hash)
{
    uint64_t chat = 0;
    if (request->options->chat) HIL_TRY(hil_chat_template_key(request->options->chat, &chat));
    *hash = hil_hash(*hash, &chat, sizeof chat);
    for (size_t i = 0; i < request->files.count; ++i) {
        struct stat info;
        const char *path = request->files.path[i];
        if (stat(path, &info) != 0)
            return hil_fail(HIL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
        *hash = hil_hash(*hash, path, strlen(path));
        const int64_t numbers[] = {
            (int64_t)info.st_dev, (int64_t)info.st_ino, (int64_t)info.st_size, info.st_mtim.tv_sec,
            info.st_mtim.tv_nsec, info.st_ctim.tv_sec,  info.st_ctim.tv_nsec};
        *hash = hil_hash(*hash, numbers, sizeof numbers);
    }
    return HIL_OK;
}

static hil_status find_cache(struct request *request)
{
    uint64_t hash = hash_request(request);
    char name[64];
    snprintf(name, sizeof name, "tokens-%016llx.bin", (unsigned long long)hash);
    const hil_dataset_options *options = request->options;
    if (options->prepared_path)
        snprintf(request->cache_path, HIL_PATH_MAX, "%s", options->prepared_path);
    else
        HIL_TRY(hil_path_join(request->cache_path, options->cache_dir, name));
    request->key = options->prepared;
    if (request->key) return HIL_OK;
    request->key = hash;
    return hash_files(request, &request->key);
}

static hil_status check_size(const struct request *request, int64_t tokens,
                             const hil_packing *packing)
{
    int64_t seq = request->options->seq;
    if (tokens >= seq) return HIL_OK;
    char more[48] = "";
    size_t count = request->files.count;
    const char *first = count ? request->files.path[0] : request->given[0];
    if (count > 1) snprintf(more, sizeof more, " (with %zu more files)", count - 1);
    if (packing->examples)
        return hil_fail(HIL_ERR_INPUT,
                        "%s%s has no token to learn: in all %lld examples the prompt fills a "
                        "window of %lld tokens, or the completion is empty; try a longer --seq",
                        first, more, (long long)packing->examples, (long long)seq);
    if (tokens == 0)
        return hil_fail(HIL_ERR_INPUT, "%s%s is empty: no tokens to train on", first, more);
    return hil_fail(
        HIL_ERR_INPUT,
        "%s%s has %lld tokens, fewer than one sequence of %lld: give more data, or a smaller --seq",
        first, more, (long long)tokens, (long long)seq);
}

/* Writes a cache with a name, or if `nameless` is set a nameless one, opened in *nameless. */
static hil_status write_cache(const struct request *request, hil_cache **nameless)
{
    hil_cache_writer *writer = NULL;
    hil_packing packing;
    hil_status status;
    if (nameless)
        HIL_TRY_DONE(
            hil_cache_writer_open_nameless(&writer, request->options->cache_dir, request->key));
    else
        HIL_TRY_DONE(hil_cache_writer_open(&writer, request->cache_path, request->key));
    HIL_TRY_DONE(hil_pack_files(writer, (const char *const *)request->files.path,
                                request->files.count, request->options, &packing));
    HIL_TRY_DONE(check_size(request, hil_cache_writer_tokens(writer), &packing));
    uint64_t key = hash_request(request);
    HIL_TRY_DONE(hash_files(request, &key));
    if (key != request->key)
        HIL_TRY_DONE(hil_fail(HIL_ERR_INPUT, "%s changed while it was being read",
                              request->files.count > 1 ? "a data file" : request->files.path[0]));
    if (nameless)
        HIL_TRY_DONE(hil_cache_writer_take(writer, &packing, nameless));
    else
        HIL_TRY_DONE(hil_cache_writer_commit(writer, &packing));
done:
    hil_cache_writer_close(writer);
    return status;
}

/* Removes the unfinished file of a builder of this cache that was killed: one not written for a
   while, since a running builder writes all the time. Another process may remove it first. */
static hil_status remove_leftover(void *context, const char *folder, const char *name)
{
    const struct request *request = context;
    const char *cache = strrchr(request->cache_path, '/') + 1;
    char path[HIL_PATH_MAX];
    struct stat info;
    if (strncmp(name, cache, strlen(cache)) != 0 || !hil_temporary_is(name)) return HIL_OK;
    HIL_TRY(hil_path_join(path, folder, name));
    if (stat(path, &info) == 0 && time(NULL) - info.st_mtime > LEFTOVER_SECONDS) unlink(path);
    return HIL_OK;
}

static hil_status build_cache(struct request *request)
{
    const char *folder = request->options->cache_dir;
    size_t existed = hil_dir_existing(folder);
    hil_status status = hil_dir_create(folder);
    if (status == HIL_OK && existed < strlen(folder) && chmod(folder, 0700) != 0)
        status = hil_fail(HIL_ERR_IO, "cannot protect %s: %s", folder, strerror(errno));
    if (status == HIL_OK)
        status = hil_dir_each(folder, HIL_MISSING_FAILS, remove_leftover, request);
    if (status == HIL_OK) status = write_cache(request, NULL);
    if (status != HIL_OK) hil_dir_uncreate(folder, existed);
    return status;
}

static hil_status find_files(struct request *request)
{
    const hil_dataset_options *options = request->options;
    if (options->prepared) return HIL_OK;
    HIL_TRY(hil_files_find(&request->files, request->given, request->given_count));
    if (!options->note || !request->files.skipped) return HIL_OK;
    char line[HIL_PATH_MAX + 128];
    snprintf(line, sizeof line, "%zu file%s of the data folders skipped, not data by name (%s%s)",
             request->files.skipped, request->files.skipped > 1 ? "s" : "", request->files.example,
             request->files.skipped > 1 ? ", ..." : "");
    options->note(options->context, line);
    return HIL_OK;
}

static hil_status open_or_build(struct request *request, hil_cache **cache)
{
    HIL_TRY(find_files(request));
    HIL_TRY(find_cache(request));
    const hil_dataset_options *options = request->options;
    if (options->nameless)
        HIL_TRY(write_cache(request, cache));
    else
        HIL_TRY(hil_cache_open(cache, request->cache_path, request->key, options->seq));
    if (!*cache && !options->prepared) {
        HIL_TRY(build_cache(request));
        HIL_TRY(hil_cache_open(cache, request->cache_path, request->key, options->seq));
    }
    if (!*cache)
        return hil_fail(HIL_ERR_IO, "token cache %s vanished as soon as it was written",
                        request->cache_path);
    return check_size(request, hil_cache_tokens(*cache), hil_cache_packing(*cache));
}

hil_status hil_cache_prepare(hil_cache **out, const char *const *paths, size_t count,
                             const hil_dataset_options *options)
{
    *out = NULL;
    HIL_TRY(check_options(options, count));
    struct request request = {.given = paths, .given_count = count, .options = options};
    hil_cache *cache = NULL;
    hil_status status = open_or_build(&request, &cache);
    if (status == HIL_OK)
        *out = cache;
    else
        hil_cache_close(cache);
    hil_files_free(&request.files);
    return status;
}
