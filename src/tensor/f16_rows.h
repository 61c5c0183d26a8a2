/* f16_rows.h - rows between fp16 or bf16 and fp32 with the instructions that the including file
   has; the same bits as hil_f16_load, hil_f16_round and hil_bf16_round. */
#ifndef HIL_TENSOR_F16_ROWS_H
#define HIL_TENSOR_F16_ROWS_H

#include "tensor/tensor.h"

/* The same for files that are compiled for any machine. */
typedef struct hil_f16_kernel {
    void (*load)(float *out, const uint16_t *in, int64_t n);
    void (*round)(uint16_t *out, const float *in, int64_t n);
    void (*round_bf16)(uint16_t *out, const float *in, int64_t n);
} hil_f16_kernel;
extern const hil_f16_kernel hil_f16_portable, hil_f16_avx2;

/* Without a branch, so that compilers make vectors of it. */
static inline void hil_bf16_round_row(uint16_t *out, const float *in, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) {
        uint32_t u = hil_bits(in[i]);
        uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        uint32_t quiet = (u >> 16) | 0x40u;
        out[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
}

#ifdef __F16C__
#include <immintrin.h>

static inline void hil_f16_load_row(float *out, const uint16_t *in, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
    for (; i < n; ++i) out[i] = hil_f16_load(in[i]);
}

static inline void hil_f16_round_row(uint16_t *out, const float *in, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; ++i) out[i] = hil_f16_round(in[i]);
}
#else
static inline void hil_f16_load_row(float *out, const uint16_t *in, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = hil_f16_load(in[i]);
}

static inline void hil_f16_round_row(uint16_t *out, const float *in, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) out[i] = hil_f16_round(in[i]);
}
#endif

#endif
