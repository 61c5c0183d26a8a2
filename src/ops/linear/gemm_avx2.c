/* gemm_avx2.c - the matrix product's kernels for AVX2 with FMA and F16C. */
#include "ops/linear/gemm_rows.h"

#include <immintrin.h>

#define MR 6
#define NR 16
#define LANES 8
#define VECTORS (NR / LANES)
#define INLINE static inline __attribute__((always_inline))

typedef __m256 vec;
#define VEC(name) _mm256_##name##_ps

INLINE float vec_sum(vec v)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

INLINE __m256i first_lanes(int64_t count)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane);
}

/* The first `count` (1 to 8) numbers at element `at`, then zeros. */
INLINE vec vec_convert(const void *data, hil_dtype dtype, int64_t at, int64_t count)
{
    if (dtype == HIL_F32)
        return count == LANES ? _mm256_loadu_ps((const float *)data + at)
                              : _mm256_maskload_ps((const float *)data + at, first_lanes(count));
    const uint16_t *from = (const uint16_t *)data + at;
    uint16_t part[LANES] = {0};
    if (count < LANES) {
        for (int64_t i = 0; i < count; ++i) part[i] = from[i];
        from = part;
    }
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)from);
    if (dtype == HIL_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

INLINE void store_first(float *x, vec v, int64_t count)
{
    if (count == LANES)
        _mm256_storeu_ps(x, v);
    else
        _mm256_maskstore_ps(x, first_lanes(count), v);
}

/* The last step of a transpose: swaps halves of rows. */
INLINE void transpose_parts(vec r[8])
{
    vec t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) r[i] = t[i];
}

#include "ops/linear/gemm_simd.h"

const hil_gemm_kernel hil_gemm_avx2 = HIL_GEMM_KERNEL("avx2", LANES, float);
