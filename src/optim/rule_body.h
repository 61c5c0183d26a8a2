/* rule_body.h - the loops of rule.h, compiled once for each instruction set: the including file
   defines RULE_KERNEL. */
#include "kernels/gradient_body.h"
#include "optim/rule_element.h"
#include "optim/rule_kernel.h"

#include "tensor/q8.h"

#include <math.h>
#include <string.h>

/* The fp32 masters: in place if the block has them whole, otherwise joined from weight and rest in
   w. */
static inline float *load_master(const gradient_chunk *c, float *w)
{
    const hil_block *b = c->block;
    if (b->dtype == HIL_F32) return (float *)b->weight + c->first;
    if (b->dtype == HIL_F16) return (float *)b->rest + c->first;
    const uint16_t *high = (const uint16_t *)b->weight + c->first;
    const uint16_t *low = (const uint16_t *)b->rest + c->first;
    for (int64_t i = 0; i < c->count; ++i) w[i] = hil_bf16_join(high[i], low[i]);
    return w;
}

static inline void store_master(const gradient_chunk *c, const float *w)
{
    const hil_block *b = c->block;
    if (b->dtype == HIL_F32) return;
    uint16_t *high = (uint16_t *)b->weight + c->first;
    if (b->dtype == HIL_F16) {
        hil_f16_round_row(high, w, c->count);
        return;
    }
    uint16_t *low = (uint16_t *)b->rest + c->first;
    for (int64_t i = 0; i < c->count; ++i) high[i] = hil_bf16_high(w[i]);
    for (int64_t i = 0; i < c->count; ++i) low[i] = hil_bf16_low(w[i]);
}

static inline void adamw_chunk(const hil_rule_step *s, float *restrict w, float *restrict m,
                               float *restrict v, const float *restrict g, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) w[i] = hil_adamw_element(s, w[i], &m[i], &v[i], g[i]);
}

/* [Note: one pass] Blocks with one gradient are updated in one loop over all arrays, which uses the
   memory bandwidth better than one loop per array. */
static void adamw_f32_pass(const hil_rule_step *s, const hil_block *b)
{
    adamw_chunk(s, b->weight, b->moment[0], b->moment[1], b->gradient[0], b->count);
}

static void adamw_bf16_pass(const hil_rule_step *s, const hil_block *b)
{
    uint16_t *restrict high = b->weight, *restrict low = b->rest;
    float *restrict m = b->moment[0], *restrict v = b->moment[1];
    const uint16_t *restrict g = b->gradient[0];
    for (int64_t i = 0; i < b->count; ++i) {
        float w = hil_bf16_join(high[i], low[i]);
        w = hil_adamw_element(s, w, &m[i], &v[i], hil_bf16_load(g[i]));
        high[i] = hil_bf16_high(w);
        low[i] = hil_bf16_low(w);
    }
}

/* The parts of an update with late moments: the weights, with moments that are not written. */
static inline void weights_chunk(const hil_rule_step *s, float *restrict w, const float *restrict m,
                                 const float *restrict v, const float *restrict g, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) {
        float m1 = m[i], v1 = v[i];
        w[i] = hil_adamw_element(s, w[i], &m1, &v1, g[i]);
    }
}

static inline void moments_chunk(const hil_rule_step *s, float *restrict m, float *restrict v,
                                 const float *restrict g, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) hil_adamw_moments(s, &m[i], &v[i], g[i]);
}

static void weights_bf16_pass(const hil_rule_step *s, const hil_block *b)
{
    uint16_t *restrict high = b->weight, *restrict low = b->rest;
    const float *restrict m = b->moment[0], *restrict v = b->moment[1];
    const uint16_t *restrict g = b->gradient[0];
    for (int64_t i = 0; i < b->count; ++i) {
        float m1 = m[i], v1 = v[i], w = hil_bf16_join(high[i], low[i]);
        w = hil_adamw_element(s, w, &m1, &v1, hil_bf16_load(g[i]));
        high[i] = hil_bf16_high(w);
        low[i] = hil_bf16_low(w);
    }
}

static void moments_bf16_pass(const hil_rule_step *s, const hil_block *b)
{
    float *restrict m = b->moment[0], *restrict v = b->moment[1];
    const uint16_t *restrict g = b->gradient[0];
    for (int64_t i = 0; i < b->count; ++i) hil_adamw_moments(s, &m[i], &v[i], hil_bf16_load(g[i]));
}

static void adamw_part(const hil_rule_step *step, const hil_block *b)
{
    bool weights = b->scope == HIL_SCOPE_WEIGHTS;
    if (b->gradients == 1 && b->dtype == HIL_F32 && weights) {
        weights_chunk(step, b->weight, b->moment[0], b->moment[1], b->gradient[0], b->count);
        return;
    }
    if (b->gradients == 1 && b->dtype == HIL_F32) {
        moments_chunk(step, b->moment[0], b->moment[1], b->gradient[0], b->count);
        return;
    }
    if (b->gradients == 1 && b->dtype == HIL_BF16 && !b->sums) {
        (weights ? weights_bf16_pass : moments_bf16_pass)(step, b);
        return;
    }
    gradient_chunk c = {.block = b};
    float joined[CHUNK];
    while (next_chunk(&c)) {
        sum_gradient(&c);
        float *m = (float *)b->moment[0] + c.first, *v = (float *)b->moment[1] + c.first;
        if (!weights) {
            moments_chunk(step, m, v, c.g, c.count);
            continue;
        }
        float *w = load_master(&c, joined);
        weights_chunk(step, w, m, v, c.g, c.count);
        store_master(&c, w);
    }
}

static void adamw(const hil_rule_step *step, const hil_block *b)
{
    if (b->scope == HIL_SCOPE_WEIGHTS || b->scope == HIL_SCOPE_MOMENTS) {
        adamw_part(step, b);
        return;
    }
    if (b->gradients == 1 && b->dtype == HIL_F32) {
        adamw_f32_pass(step, b);
        return;
    }
    if (b->gradients == 1 && b->dtype == HIL_BF16 && !b->sums) {
        adamw_bf16_pass(step, b);
        return;
    }
    gradient_chunk c = {.block = b};
    float joined[CHUNK];
    while (next_chunk(&c)) {
        sum_gradient(&c);
        float *w = load_master(&c, joined);
        float *m = (float *)b->moment[0] + c.first, *v = (float *)b->moment[1] + c.first;
        adamw_chunk(step, w, m, v, c.g, c.count);
        store_master(&c, w);
    }
}

static inline void lion_chunk(const hil_rule_step *s, float *restrict w, float *restrict m,
                              const float *restrict g, int64_t count)
{
    for (int64_t i = 0; i < count; ++i) w[i] = hil_lion_element(s, w[i], &m[i], g[i]);
}

static void lion(const hil_rule_step *step, const hil_block *b)
{
    gradient_chunk c = {.block = b};
    float joined[CHUNK];
    while (next_chunk(&c)) {
        sum_gradient(&c);
        float *w = load_master(&c, joined);
        lion_chunk(step, w, (float *)b->moment[0] + c.first, c.g, c.count);
        store_master(&c, w);
    }
}

static void adamw8bit(const hil_rule_step *step, const hil_block *b)
{
    const float *values[HIL_MOMENTS] = {hil_q8_values(HIL_Q8_SIGNED),
                                        hil_q8_values(HIL_Q8_UNSIGNED)};
    float m[CHUNK], v[CHUNK];
    gradient_chunk c = {.block = b};
    float joined[CHUNK];
    while (next_chunk(&c)) {
        unsigned char *m8 = (unsigned char *)b->moment[0] + hil_codec_bytes(HIL_CODEC_Q8, c.first);
        unsigned char *v8 = (unsigned char *)b->moment[1] + hil_codec_bytes(HIL_CODEC_Q8, c.first);
        hil_q8_decode_group(m, m8, values[0]);
        hil_q8_decode_group(v, v8, values[1]);
        sum_gradient(&c);
        float *w = load_master(&c, joined);
        adamw_chunk(step, w, m, v, c.g, c.count);
        store_master(&c, w);
        hil_q8_encode_group(m8, m, HIL_Q8_SIGNED);
        hil_q8_encode_group(v8, v, HIL_Q8_UNSIGNED);
    }
}

static void muon_momentum(const hil_rule_step *step, const hil_block *b)
{
    gradient_chunk c = {.block = b};
    while (next_chunk(&c)) {
        sum_gradient(&c);
        float *m = (float *)b->moment[0] + c.first;
        if (b->dtype == HIL_F32) {
            float *u = (float *)(uintptr_t)b->gradient[0] + c.first;
            for (int64_t i = 0; i < c.count; ++i) u[i] = hil_muon_momentum(step, &m[i], c.g[i]);
        } else {
            uint16_t *u = (uint16_t *)(uintptr_t)b->gradient[0] + c.first;
            for (int64_t i = 0; i < c.count; ++i)
                u[i] = hil_bf16_round(hil_muon_momentum(step, &m[i], c.g[i]));
        }
    }
}

static void muon_step(const hil_rule_step *step, const hil_block *b)
{
    hil_block first = *b;
    first.gradients = 1;
    gradient_chunk c = {.block = &first};
    float joined[CHUNK];
    while (next_chunk(&c)) {
        sum_gradient(&c);
        float *w = load_master(&c, joined);
        for (int64_t i = 0; i < c.count; ++i) w[i] = hil_muon_element(step, w[i], c.g[i]);
        store_master(&c, w);
    }
}

static void muon(const hil_rule_step *step, const hil_block *b)
{
    static void (*const scope[])(const hil_rule_step *,
                                 const hil_block *) = {[HIL_SCOPE_ELEMENTS] = adamw,
                                                       [HIL_SCOPE_MOMENTUM] = muon_momentum,
                                                       [HIL_SCOPE_MATRIX] = muon_step};
    scope[b->scope](step, b);
}

const hil_rule_kernel RULE_KERNEL = {
    .update =
        {[HIL_ADAMW] = adamw, [HIL_LION] = lion, [HIL_ADAMW8BIT] = adamw8bit, [HIL_MUON] = muon},
};
