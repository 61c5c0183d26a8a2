/* gemm_rows.h - plain loops of the matrix product, compiled once for each instruction set. */
#ifndef HIL_OPS_LINEAR_GEMM_ROWS_H
#define HIL_OPS_LINEAR_GEMM_ROWS_H

#include "ops/linear/gemm_kernel.h"

static inline float strip_load(const hil_strip *s, int64_t i, int64_t k)
{
    int64_t at = i * s->stride + k * s->k_stride;
    if (s->dtype == HIL_F32) return ((const float *)s->data)[at];
    uint16_t half = ((const uint16_t *)s->data)[at];
    return s->dtype == HIL_BF16 ? hil_bf16_load(half) : hil_f16_load(half);
}

/* Any strip, one number at a time. */
static inline void pack_any(float *panel, const hil_strip *s, int width)
{
    for (int64_t first = 0; first < s->count; first += width)
        for (int64_t k = 0; k < s->depth; ++k, panel += width)
            for (int64_t i = 0; i < width; ++i)
                panel[i] = first + i < s->count ? strip_load(s, first + i, k) : 0;
}

/* Of each dtype: where `base` is `to`, the caller says so, or the loop is not vectorised. */
static inline void store_f32(float *to, const float *base, const hil_gemm_row *s)
{
    for (int64_t i = 0; i < s->count; ++i) {
        float x = s->from[i];
        if (base) x = base[i] + x;
        if (s->bias) x += s->bias[i];
        to[i] = x;
    }
}

static inline void store_row_f32(float *to, const hil_gemm_row *s)
{
    if (s->base == to)
        store_f32(to, to, s);
    else
        store_f32(to, s->base, s);
}

static inline void store_tile(const hil_tile *t, const float *sum, int rows, int columns)
{
    for (int i = 0; i < rows; ++i)
        store_row_f32(t->c + i * t->c_stride,
                      &(hil_gemm_row){.from = sum + i * columns,
                                      .bias = t->bias,
                                      .count = columns,
                                      .base = t->base ? t->base + i * t->c_stride : NULL});
}

/* hil_bf16_round without its branch. */
static inline uint16_t bf16_round(float x)
{
    uint32_t u = hil_bits(x);
    uint32_t nan = (u >> 16) | 0x40u;
    uint32_t number = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : number);
}

static inline void store_bf16(uint16_t *to, const uint16_t *base, const hil_gemm_row *s)
{
    for (int64_t i = 0; i < s->count; ++i) {
        float x = s->from[i];
        if (base) x = hil_bf16_load(base[i]) + x;
        if (s->bias) x += s->bias[i];
        to[i] = bf16_round(x);
    }
}

static inline void store_row_bf16(uint16_t *to, const hil_gemm_row *s)
{
    if (s->base == to)
        store_bf16(to, to, s);
    else
        store_bf16(to, s->base, s);
}

static inline void store_f16(uint16_t *to, const uint16_t *base, const hil_gemm_row *s)
{
    for (int64_t i = 0; i < s->count; ++i) {
        float x = s->from[i];
        if (base) x = hil_f16_load(base[i]) + x;
        if (s->bias) x += s->bias[i];
        to[i] = hil_f16_round(x);
    }
}

static inline void store_row_f16(uint16_t *to, const hil_gemm_row *s)
{
    if (s->base == to)
        store_f16(to, to, s);
    else
        store_f16(to, s->base, s);
}

static inline void store_row(const hil_gemm_row *s)
{
    if (s->dtype == HIL_F32)
        store_row_f32(s->to, s);
    else if (s->dtype == HIL_BF16)
        store_row_bf16(s->to, s);
    else
        store_row_f16(s->to, s);
}

#endif
