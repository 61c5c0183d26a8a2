/* attention_work.c - the products of attention's blocks, and what is computed beside them. */
#include "ops/attention/attention_work.h"

#include "ops/attention/attention_block.h"

#include <math.h>

/* Time beside the products, in operations of these: for each score (the exponential, packing) and
   for each number of a block's queries (reading and writing them). Fitted to sequences of 40 to
   2048 and heads of 32 to 256 on one core with AVX-512: all are within 0.91 and 1.19. */
#define FORWARD_SCORE 220.0
#define BACKWARD_SCORE 260.0
#define FORWARD_NUMBER 200.0
#define BACKWARD_NUMBER 450.0

/* Of one head of one sequence. */
static double count_pairs(const hil_attention_size *s)
{
    double queries = (double)s->queries, past = (double)s->past, window = (double)s->window;
    double all = queries * past + queries * (queries + 1) / 2;
    if (!(window > 0)) return all;
    /* Query t sees min(past + t + 1, window). */
    double full = past + queries - window; /* queries that see a whole window */
    if (full <= 0) return all;
    if (full > queries) full = queries;
    double rest = queries - full;
    return full * window + rest * past + rest * (rest + 1) / 2;
}

double hil_attention_flops(const hil_attention_size *s, bool backward)
{
    return (backward ? 10 : 4) * (double)(s->batch * s->heads * s->dim) * count_pairs(s);
}

/* `count` keys as they are cut into blocks, and padded to whole columns of tiles or units of k. */
typedef struct keys {
    double count, columns, depth, blocks;
} keys;

static keys count_keys(const hil_gemm_kernel *kernel, int64_t count)
{
    int64_t blocks = count / HIL_ATTENTION_KEYS, rest = count % HIL_ATTENTION_KEYS;
    keys k = {.count = (double)count, .blocks = (double)(blocks + (rest > 0))};
    k.columns = (double)(blocks * hil_attention_block_whole(HIL_ATTENTION_KEYS, kernel->nr) +
                         hil_attention_block_whole(rest, kernel->nr));
    k.depth = (double)(blocks * hil_attention_block_whole(HIL_ATTENTION_KEYS, kernel->k_unit) +
                       hil_attention_block_whole(rest, kernel->k_unit));
    return k;
}

/* Of one block of `rows` rows that sees these keys. Backward makes scores and their gradients, and
   then the gradients of queries, keys and values. */
static double block_work(const hil_attention_size *s, const hil_gemm_kernel *kernel, int64_t rows,
                         keys k, bool backward)
{
    double padded = (double)hil_attention_block_whole(rows, kernel->mr);
    double depth = (double)hil_attention_block_whole(s->dim, kernel->k_unit);
    double columns = (double)hil_attention_block_whole(s->dim, kernel->nr);
    double scores = 2 * padded * k.columns * depth, sums = 2 * padded * k.depth * columns;
    double numbers = (double)(rows * s->dim), pairs = (double)rows * k.count;
    if (!backward) return scores + sums + FORWARD_SCORE * pairs + FORWARD_NUMBER * numbers;
    return 2 * scores + 3 * sums + BACKWARD_SCORE * pairs + BACKWARD_NUMBER * numbers * k.blocks;
}

static double blocks_work(const hil_attention_size *s, bool backward)
{
    const hil_gemm_kernel *kernel = hil_gemm_choose(HIL_F32, HIL_F32);
    int64_t share = backward || !s->groups ? 1 : s->heads / s->groups;
    int64_t step = HIL_ATTENTION_ROWS / share > 1 ? HIL_ATTENTION_ROWS / share : 1;
    double work = 0;
    for (int64_t first = 0; first < s->queries; first += step) {
        int64_t count = s->queries - first < step ? s->queries - first : step;
        int64_t seen = s->past + first + count, from = 0;
        if (s->window > 0 && s->past + first + 1 > s->window)
            from = (s->past + first + 1 - s->window) / HIL_ATTENTION_KEYS * HIL_ATTENTION_KEYS;
        work += block_work(s, kernel, count * share, count_keys(kernel, seen - from), backward);
    }
    int64_t times = s->batch * s->heads / share;
    return work * (double)times;
}

double hil_attention_work(const hil_attention_size *s, bool backward)
{
    /* What the probe measures. */
    static const hil_attention_size usual = {
        .batch = 1, .queries = 256, .heads = 8, .groups = 8, .dim = 64};
    double flops = hil_attention_flops(&usual, false) + hil_attention_flops(&usual, true);
    double work = blocks_work(&usual, false) + blocks_work(&usual, true);
    return blocks_work(s, backward) * flops / work;
}

/* On a GPU each block of queries begins and ends with blocks of keys that the mask hides in part,
   and small heads leave the exponentials more of the time. Fitted to whole steps on an H200: heads
   of 64 and of 128 in sequences of 1024 and 4096. */
#define HIDDEN_KEYS 800.0
#define PROBED_KEYS 4096.0
#define SMALL_HEAD 64
#define SMALL_HEAD_TIME 1.18

double hil_attention_device_work(const hil_attention_size *s, bool backward)
{
    double seen = s->queries > 0 ? count_pairs(s) / (double)s->queries : PROBED_KEYS;
    bool slides = s->window > 0 && s->window < s->past + s->queries;
    if (!slides)
        seen *= 2; /* the last query sees twice the mean, and one of the two ends is whole */
    double hidden = (1 + HIDDEN_KEYS / fmax(seen, 1)) / (1 + HIDDEN_KEYS / PROBED_KEYS);
    return hil_attention_flops(s, backward) * hidden * (s->dim <= SMALL_HEAD ? SMALL_HEAD_TIME : 1);
}
