/* gemm_pairs.h - strips of bf16 as pairs of k, which instructions on bf16 multiply together.
   Included by the files of such instruction sets. */
#ifndef HIL_OPS_LINEAR_GEMM_PAIRS_H
#define HIL_OPS_LINEAR_GEMM_PAIRS_H

#include "ops/linear/gemm_kernel.h"

#include <immintrin.h>

static inline __mmask32 first(int64_t count)
{
    return count >= 32 ? 0xffffffffu : count <= 0 ? 0 : (__mmask32)((1u << count) - 1);
}

/* 32 consecutive numbers from `at`, of which the first `count` exist. */
static inline __m512i load(const hil_strip *s, int64_t at, int64_t count)
{
    return _mm512_maskz_loadu_epi16(first(count), (const uint16_t *)s->data + at);
}

/* 16 x 16 transpose of 32-bit numbers, which here are pairs of bf16. */
static inline void transpose(__m512i r[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* Rows i..i+15 with contiguous k, 32 of them from k: row r of the result is row i + r. */
static inline void load_rows(__m512i r[16], const hil_strip *s, int64_t i, int64_t k)
{
    for (int j = 0; j < 16; ++j)
        r[j] = i + j < s->count ? load(s, (i + j) * s->stride + k, s->depth - k)
                                : _mm512_setzero_si512();
}

/* The same rows where the rows are contiguous: result p holds, for 16 rows, the pairs (k + 2p,
   k + 2p + 1), each pair in 32 bits. */
static inline void load_pairs(__m512i r[16], const hil_strip *s, int64_t i, int64_t k)
{
    const __m512i weave =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    int64_t rows = s->count - i < 16 ? s->count - i : 16;
    for (int p = 0; p < 16; ++p) {
        __m256i half[2];
        for (int j = 0; j < 2; ++j) {
            int64_t at = k + 2 * p + j;
            __mmask16 mask = at < s->depth ? (__mmask16)first(rows) : (__mmask16)0;
            half[j] =
                _mm256_maskz_loadu_epi16(mask, (const uint16_t *)s->data + at * s->k_stride + i);
        }
        __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(half[0]), half[1], 1);
        r[p] = _mm512_permutexvar_epi16(weave, both);
    }
}

#endif
