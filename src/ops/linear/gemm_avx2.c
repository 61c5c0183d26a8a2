/* gemm_avx2.c - the matrix product's kernels for AVX2 with FMA and F16C. */
#include "ops/linear/gemm_rows.h"

#include <immintrin.h>
#include <string.h>

#define MR 6
#define NR 16
#define BLOCK_ROWS 144 /* many processors without AVX-512 have 512 KiB or less */
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

/* The first `count` (1 to 8) numbers of 16 bits, then zeros; joined in registers, because a load
   that spans several stores waits for them. */
INLINE __m128i load_halves(const uint16_t *from, int64_t count)
{
    if (count == LANES) return _mm_loadu_si128((const __m128i *)(const void *)from);
    uint64_t part[2] = {0};
    if (count == MR) {
        memcpy(&part[0], from, 8);
        memcpy(&part[1], from + 4, 4);
    } else {
        for (int64_t i = 0; i < count; ++i) part[i / 4] |= (uint64_t)from[i] << 16 * (i % 4);
    }
    return _mm_set_epi64x((int64_t)part[1], (int64_t)part[0]);
}

/* The first `count` (1 to 8) numbers at element `at`, then zeros. */
INLINE vec vec_convert(const void *data, hil_dtype dtype, int64_t at, int64_t count)
{
    if (dtype == HIL_F32)
        return count == LANES ? _mm256_loadu_ps((const float *)data + at)
                              : _mm256_maskload_ps((const float *)data + at, first_lanes(count));
    __m128i half = load_halves((const uint16_t *)data + at, count);
    if (dtype == HIL_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* In parts, because AMD's processors execute a masked store as dozens of operations. */
INLINE void store_first(float *x, vec v, int64_t count)
{
    if (count == LANES) {
        _mm256_storeu_ps(x, v);
        return;
    }
    __m128 part = _mm256_castps256_ps128(v);
    if (count & 4) {
        _mm_storeu_ps(x, part);
        part = _mm256_extractf128_ps(v, 1);
        x += 4;
    }
    if (count & 2) {
        _mm_storel_pi((__m64 *)(void *)x, part);
        part = _mm_movehl_ps(part, part);
        x += 2;
    }
    if (count & 1) _mm_store_ss(x, part);
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
