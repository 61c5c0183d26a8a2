/* dataset.c - windows of a token cache, and their order. */
#include "data/dataset.h"

#include "base/philox.h"
#include "data/cache_prepare.h"

#include <math.h>

struct hil_dataset {
    hil_cache *cache;
    int64_t seq;
    int64_t begin; /* first window in the cache */
    int64_t windows;
    int64_t tokens;
    uint32_t *scratch;
};

hil_status hil_dataset_open(hil_dataset **out, const char *const *paths, size_t count,
                            const hil_dataset_options *options)
{
    *out = NULL;
    hil_dataset *dataset = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &dataset));
    HIL_TRY_DONE(hil_cache_prepare(&dataset->cache, paths, count, options));
    dataset->seq = options->seq;
    dataset->windows = hil_cache_tokens(dataset->cache) / dataset->seq;
    dataset->tokens = hil_cache_tokens(dataset->cache) - hil_cache_packing(dataset->cache)->padding;
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

const hil_packing *hil_dataset_packing(const hil_dataset *dataset)
{
    return hil_cache_packing(dataset->cache);
}

uint64_t hil_dataset_content(const hil_dataset *dataset)
{
    return hil_cache_content(dataset->cache);
}

const char *hil_dataset_path(const hil_dataset *dataset)
{
    return hil_cache_path(dataset->cache);
}

uint64_t hil_dataset_key(const hil_dataset *dataset)
{
    return hil_cache_key(dataset->cache);
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
        if (t) out->target[t - 1] = marked[t] & HIL_MARK_NO_LOSS ? -1 : token;
        out->token[t] = token;
        out->position[t] = t - first;
        out->first[t] = first;
    }
    out->target[seq - 1] = -1;
    return HIL_OK;
}

int64_t hil_dataset_pick(const hil_dataset *dataset, hil_window_order order, uint64_t seed,
                         int64_t n)
{
    int64_t epoch = n / dataset->windows, index = n % dataset->windows;
    if (order == HIL_ORDER_FILE) return index;
    uint32_t word[4];
    hil_philox(seed, (uint64_t)epoch, HIL_PHILOX_ORDER, word);
    uint64_t key = ((uint64_t)word[1] << 32) | word[0];
    return (int64_t)hil_philox_permute(key, (uint64_t)dataset->windows, (uint64_t)index);
}
