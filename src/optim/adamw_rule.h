/* adamw_rule.h - the loops of adamw.h, compiled once per instruction set. */
#ifndef HIL_OPTIM_ADAMW_RULE_H
#define HIL_OPTIM_ADAMW_RULE_H

#include "optim/adamw.h"

#include <math.h>

#define CHUNK 256
#define LANES 16

typedef struct hil_adamw_kernel {
    void (*update)(const hil_adamw *rule, const hil_block *block);
    double (*square)(const hil_block *block);
} hil_adamw_kernel;

extern const hil_adamw_kernel hil_adamw_portable, hil_adamw_avx2, hil_adamw_avx512;

/* The gradient of elements [first, first + count): all uses added in order. */
static inline void sum_gradient(const hil_block *b, int64_t first, int64_t count, float *g)
{
    for (int u = 0; u < b->gradients; ++u) {
        const uint16_t *half = (const uint16_t *)b->gradient[u] + first;
        const float *full = (const float *)b->gradient[u] + first;
        if (b->dtype == HIL_F32 && u == 0) {
            for (int64_t i = 0; i < count; ++i) g[i] = full[i];
        } else if (b->dtype == HIL_F32) {
            for (int64_t i = 0; i < count; ++i) g[i] += full[i];
        } else if (u == 0) {
            for (int64_t i = 0; i < count; ++i) g[i] = hil_bf16_load(half[i]);
        } else {
            for (int64_t i = 0; i < count; ++i) g[i] += hil_bf16_load(half[i]);
        }
    }
}

static inline void adamw_chunk(const hil_adamw *r, float *restrict w, float *restrict m,
                               float *restrict v, const float *restrict g, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        float grad = g[i] * r->clip;
        m[i] = fmaf(r->beta1_rest, grad - m[i], m[i]);
        v[i] = fmaf(r->beta2_rest * grad, grad, r->beta2 * v[i]);
        float divisor = fmaf(sqrtf(v[i]), r->root, r->eps);
        w[i] = fmaf(-r->rate, m[i] / divisor, r->shrink * w[i]);
    }
}

static inline void adamw_block(const hil_adamw *rule, const hil_block *b)
{
    float g[CHUNK], w[CHUNK];
    for (int64_t first = 0; first < b->count; first += CHUNK) {
        int64_t count = b->count - first < CHUNK ? b->count - first : CHUNK;
        float *m = (float *)b->moment[0] + first, *v = (float *)b->moment[1] + first;
        sum_gradient(b, first, count, g);
        if (b->dtype == HIL_F32) {
            adamw_chunk(rule, (float *)b->weight + first, m, v, g, count);
            continue;
        }
        uint16_t *high = (uint16_t *)b->weight + first, *low = (uint16_t *)b->rest + first;
        for (int64_t i = 0; i < count; ++i) w[i] = hil_weight_join(high[i], low[i]);
        adamw_chunk(rule, w, m, v, g, count);
        for (int64_t i = 0; i < count; ++i) high[i] = hil_weight_high(w[i]);
        for (int64_t i = 0; i < count; ++i) low[i] = hil_weight_low(w[i]);
    }
}

static inline double square_block(const hil_block *b)
{
    double lane[LANES] = {0};
    float g[CHUNK];
    for (int64_t first = 0; first < b->count; first += CHUNK) {
        int64_t count = b->count - first < CHUNK ? b->count - first : CHUNK;
        sum_gradient(b, first, count, g);
        for (int64_t i = count; i < CHUNK; ++i) g[i] = 0;
        for (int64_t i = 0; i < CHUNK; i += LANES)
            for (int k = 0; k < LANES; ++k) lane[k] += (double)g[i + k] * (double)g[i + k];
    }
    double sum = 0;
    for (int k = 0; k < LANES; ++k) sum += lane[k];
    return sum;
}

#endif
