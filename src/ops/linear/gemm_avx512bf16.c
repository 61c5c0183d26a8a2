/* gemm_avx512bf16.c - the matrix product of bf16 by bf16 with AVX-512's dot products of pairs.

   A panel of B is, for every pair of k, the pairs of 64 columns. A panel of A is, for every 32
   consecutive k, 32 numbers of each of 6 rows, or, where rows are contiguous in memory, the pairs
   of 6 rows for every pair of k. The instruction flushes subnormal numbers to zero. */
#include "ops/linear/gemm_pairs.h"
#include "ops/linear/gemm_rows.h"

#include <string.h>

#define MR 6
#define NR 64
#define BLOCK_ROWS 288
#define K_UNIT 32
#define LANES 16
#define VECTORS (NR / LANES)
#define INLINE static inline __attribute__((always_inline))

typedef __m512 vec;
#define VEC(name) _mm512_##name##_ps

#include "ops/linear/gemm_tile.h"

static void pack_b(void *panels, const hil_strip *s)
{
    uint16_t *to = panels;
    for (int64_t first = 0; first < s->count; first += NR)
        for (int64_t k = 0; k < s->depth; k += K_UNIT, to += K_UNIT * NR)
            for (int64_t i = 0; i < NR; i += LANES) {
                __m512i r[LANES];
                if (s->k_stride == 1) {
                    load_rows(r, s, first + i, k);
                    transpose(r);
                } else {
                    load_pairs(r, s, first + i, k);
                }
                for (int p = 0; p < LANES; ++p) _mm512_storeu_si512(to + 2 * (p * NR + i), r[p]);
            }
}

/* Rows of contiguous k stay runs of K_UNIT: panel[k / K_UNIT][MR][K_UNIT]. */
static void pack_runs(uint16_t *to, const hil_strip *s)
{
    for (int64_t i = 0; i < s->count; i += MR)
        for (int64_t k = 0; k < s->depth; k += K_UNIT)
            for (int64_t j = i; j < i + MR; ++j, to += K_UNIT)
                _mm512_storeu_si512(to, j < s->count ? load(s, j * s->stride + k, s->depth - k)
                                                     : _mm512_setzero_si512());
}

/* Contiguous rows: panel[k / 2][MR] of pairs. A few k at a time, which stay in the first-level
   cache for the next panel. */
static void pack_woven(uint16_t *panels, const hil_strip *s)
{
    int64_t padded = (s->depth + K_UNIT - 1) / K_UNIT * K_UNIT;
    for (int64_t start = 0; start < padded; start += K_UNIT)
        for (int64_t i = 0; i < s->count; i += MR) {
            uint16_t *to = panels + i * padded + start * MR;
            int64_t rows = s->count - i < MR ? s->count - i : MR;
            for (int64_t k = start; k < start + K_UNIT; k += 2, to += 2 * MR) {
                const uint16_t *from = (const uint16_t *)s->data + k * s->k_stride + i;
                __mmask8 low = k < s->depth ? (__mmask8)first(rows) : (__mmask8)0;
                __mmask8 high = k + 1 < s->depth ? (__mmask8)first(rows) : (__mmask8)0;
                __m256i even = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(low, from));
                __m256i odd =
                    _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(high, from + s->k_stride));
                _mm256_mask_storeu_epi32(to, (__mmask8)first(MR),
                                         _mm256_or_si256(even, _mm256_slli_epi32(odd, 16)));
            }
        }
}

static void pack_a(void *panels, const hil_strip *strip)
{
    if (strip->k_stride == 1)
        pack_runs(panels, strip);
    else
        pack_woven(panels, strip);
}

/* `pairs` pairs of k; pair p of row i of A is at a[i * row_step + p * pair_step]. */
static inline __attribute__((always_inline)) void accumulate(tile_sums *sum, const uint16_t *a,
                                                             const uint16_t *b, int64_t pairs,
                                                             int row_step, int pair_step)
{
    for (int64_t p = 0; p < pairs; ++p, a += pair_step, b += 2 * NR) {
        __m512bh column[VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < VECTORS; ++j)
            column[j] = (__m512bh)_mm512_loadu_si512(b + 2 * j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < MR; ++i) {
            int32_t pair;
            memcpy(&pair, a + i * row_step, sizeof pair);
            __m512bh row = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
            for (int j = 0; j < VECTORS; ++j)
                sum->of[i][j] = _mm512_dpbf16_ps(sum->of[i][j], row, column[j]);
        }
    }
}

INLINE void accumulate_runs(tile_sums *sum, const hil_tile *t)
{
    const uint16_t *a = t->a, *b = t->b;
    for (int64_t k = 0; k < t->depth; k += K_UNIT, a += MR * K_UNIT, b += NR * K_UNIT)
        accumulate(sum, a, b, K_UNIT / 2, K_UNIT, 2);
}

static void tile(const hil_tile *t)
{
    tile_sums sum;
    tile_begin(&sum, t);
    if (t->a_by_rows)
        accumulate_runs(&sum, t);
    else
        accumulate(&sum, t->a, t->b, t->depth / 2, 2, 2 * MR);
    tile_end(&sum, t);
}

static void few(const hil_few *f)
{
    hil_gemm_avx512.few(f);
}

const hil_gemm_kernel hil_gemm_avx512bf16 = HIL_GEMM_KERNEL("avx512bf16", K_UNIT, uint16_t);
