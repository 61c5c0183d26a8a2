/* sampling.c - greedy, temperature, top-k and top-p. */
#include "run/sampling.h"

#include <math.h>
#include <stdlib.h>

hil_status hil_sampling_check(const hil_sampling *how)
{
    if (!(how->temperature >= 0))
        return hil_fail(HIL_ERR_USAGE, "--temperature must not be negative");
    if (!(how->top_p > 0 && how->top_p <= 1))
        return hil_fail(HIL_ERR_USAGE, "--top-p must be above 0 and at most 1");
    if (how->top_k < 0) return hil_fail(HIL_ERR_USAGE, "--top-k must not be negative");
    return HIL_OK;
}

static int32_t largest(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; ++i)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* Larger logits first; among equals lower ids first, so that the order is unique. */
static int by_logit(const void *a, const void *b, void *context)
{
    const float *logits = context;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (logits[x] != logits[y]) return logits[x] < logits[y] ? 1 : -1;
    return x < y ? -1 : x > y;
}

int32_t hil_sample(const hil_sampling *how, const float *logits, int64_t vocab, double random,
                   int32_t *order)
{
    if (how->temperature <= 0) return largest(logits, vocab);
    for (int64_t i = 0; i < vocab; ++i) order[i] = (int32_t)i;
    qsort_r(order, (size_t)vocab, sizeof *order, by_logit, (void *)(uintptr_t)logits);
    int64_t count = how->top_k > 0 && how->top_k < vocab ? how->top_k : vocab;
    double top = (double)logits[order[0]], total = 0, kept = 0;
    for (int64_t i = 0; i < count; ++i)
        total += exp(((double)logits[order[i]] - top) / how->temperature);
    int64_t nucleus = 0;
    while (nucleus < count && (nucleus == 0 || kept < how->top_p * total))
        kept += exp(((double)logits[order[nucleus++]] - top) / how->temperature);
    double target = random * kept, sum = 0;
    for (int64_t i = 0; i < nucleus; ++i) {
        sum += exp(((double)logits[order[i]] - top) / how->temperature);
        if (target < sum) return order[i];
    }
    return order[nucleus - 1];
}
