/* dataset.c - windows of a token cache, and their order. */
#include "data/dataset.h"

#include "base/hash.h"
#include "base/philox.h"
#include "data/cache_prepare.h"

#include <math.h>

/* Windows of one cache. */
struct part {
    hil_cache *cache;
    int64_t begin; /* first window in the cache */
    int64_t windows;
    double weight; /* of its examples among those of all parts */
    int64_t draws; /* windows that an epoch takes */
};

/* One part, unless datasets were mixed. */
struct hil_dataset {
    struct part *part;
    size_t parts;
    int64_t seq;
    int64_t windows; /* of all parts */
    int64_t epoch;   /* windows drawn in one */
    int64_t tokens;
    hil_packing packing; /* of all parts */
    uint64_t content;
    uint32_t *scratch;
};

static hil_status create(hil_dataset **out, size_t parts, int64_t seq)
{
    hil_dataset *dataset = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &dataset));
    dataset->seq = seq;
    HIL_TRY_DONE(HIL_ALLOC(parts, &dataset->part));
    dataset->parts = parts;
    HIL_TRY_DONE(HIL_ALLOC(hil_cache_scratch(seq), &dataset->scratch));
    *out = dataset;
    return HIL_OK;
done:
    hil_dataset_close(dataset);
    return status;
}

hil_status hil_dataset_open(hil_dataset **out, const char *const *paths, size_t count,
                            const hil_dataset_options *options)
{
    hil_cache *cache;
    *out = NULL;
    HIL_TRY(hil_cache_prepare(&cache, paths, count, options));
    hil_dataset *dataset;
    hil_status status = create(&dataset, 1, options->seq);
    if (status != HIL_OK) {
        hil_cache_close(cache);
        return status;
    }
    dataset->packing = *hil_cache_packing(cache);
    dataset->content = hil_cache_content(cache);
    dataset->windows = dataset->epoch = hil_cache_tokens(cache) / options->seq;
    dataset->tokens = hil_cache_tokens(cache) - dataset->packing.padding;
    *dataset->part = (struct part){
        .cache = cache, .windows = dataset->windows, .weight = 1, .draws = dataset->windows};
    *out = dataset;
    return HIL_OK;
}

void hil_dataset_close(hil_dataset *dataset)
{
    if (!dataset) return;
    for (size_t i = 0; i < dataset->parts; ++i) hil_cache_close(dataset->part[i].cache);
    hil_free(dataset->part);
    hil_free(dataset->scratch);
    hil_free(dataset);
}

/* Examples in a window on average; a window of text counts as one. */
static double examples_per_window(const struct part *part)
{
    const hil_packing *p = hil_cache_packing(part->cache);
    int64_t all = hil_cache_tokens(part->cache) / (p->seq ? p->seq : 1);
    if (!p->windows) return 1;
    return (double)(p->examples - p->left_out + all - p->windows) / (double)all;
}

/* An epoch takes each window of the first part once, and of the others as many as their weights
   ask for. */
static void count_draws(hil_dataset *dataset)
{
    const struct part *first = dataset->part;
    double unit = (double)first->windows * examples_per_window(first) / first->weight;
    dataset->epoch = 0;
    for (size_t i = 0; i < dataset->parts; ++i) {
        struct part *part = &dataset->part[i];
        part->draws = i ? llround(unit * part->weight / examples_per_window(part)) : part->windows;
        if (part->draws < 1) part->draws = 1;
        dataset->epoch += part->draws;
    }
}

static void add_packing(hil_packing *to, const hil_packing *from)
{
    to->windows += from->windows;
    to->examples += from->examples;
    to->cut += from->cut;
    to->cut_tokens += from->cut_tokens;
    if (from->seq) to->seq = from->seq;
    to->conversations += from->conversations;
    to->left_out += from->left_out;
    to->padding += from->padding;
    to->learned += from->learned;
}

hil_status hil_dataset_mix(hil_dataset **out, hil_dataset *const *given, const double *weights,
                           size_t count)
{
    hil_dataset *mixed;
    *out = NULL;
    HIL_TRY(create(&mixed, count, given[0]->seq));
    for (size_t i = 0; i < count; ++i) {
        const hil_dataset *one = given[i];
        assert(one->parts == 1 && one->seq == mixed->seq && weights[i] > 0);
        mixed->part[i] = *one->part;
        mixed->part[i].cache = hil_cache_share(one->part->cache);
        mixed->part[i].weight = weights[i];
        mixed->windows += one->windows;
        mixed->tokens += one->tokens;
        add_packing(&mixed->packing, &one->packing);
        mixed->content = hil_hash(mixed->content ^ one->content, &weights[i], sizeof *weights);
    }
    count_draws(mixed);
    *out = mixed;
    return HIL_OK;
}

int64_t hil_dataset_tokens(const hil_dataset *dataset)
{
    return dataset->tokens;
}

const hil_packing *hil_dataset_packing(const hil_dataset *dataset)
{
    return &dataset->packing;
}

uint64_t hil_dataset_content(const hil_dataset *dataset)
{
    return dataset->content;
}

const char *hil_dataset_path(const hil_dataset *dataset)
{
    return hil_cache_path(dataset->part->cache);
}

uint64_t hil_dataset_key(const hil_dataset *dataset)
{
    return hil_cache_key(dataset->part->cache);
}

int64_t hil_dataset_windows(const hil_dataset *dataset)
{
    return dataset->windows;
}

int64_t hil_dataset_epoch(const hil_dataset *dataset)
{
    return dataset->epoch;
}

double hil_dataset_passes(const hil_dataset *dataset, size_t part)
{
    return (double)dataset->part[part].draws / (double)dataset->part[part].windows;
}

/* Windows of `windows` to hold out. */
static hil_status held_windows(int64_t windows, double fraction, int64_t *out)
{
    *out = llround((double)windows * fraction);
    if (*out < 1) *out = 1;
    if (*out < windows) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT,
                    "holding out %g of %lld windows leaves nothing to train on: give more data "
                    "or shorter sequences",
                    fraction, (long long)windows);
}

hil_status hil_dataset_hold_out(hil_dataset *dataset, double fraction, hil_dataset **held)
{
    *held = NULL;
    int64_t out;
    if (!(fraction > 0 && fraction < 1))
        return hil_fail(HIL_ERR_USAGE, "the fraction held out must lie between 0 and 1, not %g",
                        fraction);
    for (size_t i = 0; i < dataset->parts; ++i)
        HIL_TRY(held_windows(dataset->part[i].windows, fraction, &out));
    hil_dataset *rest;
    HIL_TRY(create(&rest, dataset->parts, dataset->seq));
    for (size_t i = 0; i < dataset->parts; ++i) {
        struct part *part = &dataset->part[i], *to = &rest->part[i];
        (void)!held_windows(part->windows, fraction, &out);
        part->windows -= out;
        *to = *part;
        to->cache = hil_cache_share(part->cache);
        to->begin = part->begin + part->windows;
        to->windows = to->draws = out;
        rest->windows += out;
    }
    dataset->windows -= rest->windows;
    count_draws(dataset);
    rest->epoch = rest->windows;
    rest->packing = dataset->packing;
    rest->content = dataset->content;
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
    const struct part *part = dataset->part;
    for (; index >= part->windows; ++part) index -= part->windows;
    HIL_TRY(
        hil_cache_read(part->cache, (part->begin + index) * seq, seq, dataset->scratch, &marked));
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

/* The image of `index` under the permutation number `pass` of a stream of them. */
static int64_t shuffled(uint64_t seed, size_t stream, int64_t pass, int64_t count, int64_t index)
{
    uint32_t word[4];
    hil_philox(seed, (uint64_t)pass, HIL_PHILOX_ORDER + stream, word);
    uint64_t key = ((uint64_t)word[1] << 32) | word[0];
    return (int64_t)hil_philox_permute(key, (uint64_t)count, (uint64_t)index);
}

int64_t hil_dataset_pick(const hil_dataset *dataset, hil_window_order order, uint64_t seed,
                         int64_t n)
{
    bool shuffle = order == HIL_ORDER_SHUFFLE;
    int64_t epoch = n / dataset->epoch, draw = n % dataset->epoch, before = 0;
    if (shuffle) draw = shuffled(seed, 0, epoch, dataset->epoch, draw);
    size_t i = 0;
    for (; draw >= dataset->part[i].draws; ++i) {
        draw -= dataset->part[i].draws;
        before += dataset->part[i].windows;
    }
    if (i == 0) return draw;
    /* the draws of all epochs are passes over the part, one after the other */
    const struct part *part = &dataset->part[i];
    int64_t taken = epoch * part->draws + draw, at = taken % part->windows;
    if (shuffle) at = shuffled(seed, i, taken / part->windows, part->windows, at);
    return before + at;
}
