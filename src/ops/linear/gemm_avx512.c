/* gemm_avx512.c - the matrix product's kernels for AVX-512. */
#include "ops/linear/gemm_rows.h"

#include <immintrin.h>

#define MR 6
#define NR 64
#define BLOCK_ROWS 288
#define LANES 16
#define VECTORS (NR / LANES)
#define INLINE static inline __attribute__((always_inline))

typedef __m512 vec;
#define VEC(name) _mm512_##name##_ps

INLINE float vec_sum(vec v)
{
    return _mm512_reduce_add_ps(v);
}

/* The first `count` (1 to 16) numbers at element `at`, then zeros. */
INLINE vec vec_convert(const void *data, hil_dtype dtype, int64_t at, int64_t count)
{
    __mmask16 mask = (__mmask16)(0xffffu >> (16 - count));
    if (dtype == HIL_F32) return _mm512_maskz_loadu_ps(mask, (const float *)data + at);
    __m256i half = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)data + at);
    if (dtype == HIL_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

INLINE void store_first(float *x, vec v, int64_t count)
{
    _mm512_mask_storeu_ps(x, (__mmask16)(0xffffu >> (16 - count)), v);
}

INLINE void split_quarters(vec *even, vec *odd, vec a, vec b)
{
    *even = _mm512_shuffle_f32x4(a, b, 0x88);
    *odd = _mm512_shuffle_f32x4(a, b, 0xdd);
}

/* The last steps of a transpose: swap quarters of rows. */
INLINE void transpose_parts(vec r[16])
{
    vec t[16];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        split_quarters(&t[i], &t[i + 4], r[i], r[i + 4]);
        split_quarters(&t[i + 8], &t[i + 12], r[i + 8], r[i + 12]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) split_quarters(&r[i], &r[i + 8], t[i], t[i + 8]);
}

#include "ops/linear/gemm_simd.h"

const hil_gemm_kernel hil_gemm_avx512 = HIL_GEMM_KERNEL("avx512", LANES, float);
