/* gemm_amx.c - the matrix product of bf16 by bf16 on AMX tiles.

   A panel of 32 rows is, for every 32 consecutive k, two tiles of 16 rows x 32 k. A panel of 32
   columns is likewise two tiles of 16 pairs of k x 16 columns, pairs adjacent as the instruction
   wants them. Four tiles of sums hold 32 x 32 results. Tiles flush subnormal numbers to zero. */
#include "ops/linear/gemm_rows.h"

#include <immintrin.h>
#include <string.h>

#define MR 32
#define NR 32
#define BLOCK_ROWS 288
#define K_UNIT 32
#define TILE 512 /* numbers in a tile of bf16 */

typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static const tile_config config __attribute__((aligned(64))) = {
    .palette = 1,
    .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
    .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

static __mmask32 first(int64_t count)
{
    return count >= 32 ? 0xffffffffu : count <= 0 ? 0 : (__mmask32)((1u << count) - 1);
}

/* 32 consecutive numbers from `at`, of which the first `count` exist. */
static __m512i load(const hil_strip *s, int64_t at, int64_t count)
{
    return _mm512_maskz_loadu_epi16(first(count), (const uint16_t *)s->data + at);
}

/* 16 x 16 transpose of 32-bit numbers, which here are pairs of bf16. */
static void transpose(__m512i r[16])
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
static void load_rows(__m512i r[16], const hil_strip *s, int64_t i, int64_t k)
{
    for (int j = 0; j < 16; ++j)
        r[j] = i + j < s->count ? load(s, (i + j) * s->stride + k, s->depth - k)
                                : _mm512_setzero_si512();
}

/* The same rows where the rows are contiguous: result p holds, for 16 rows, the pairs (k + 2p,
   k + 2p + 1), each pair in 32 bits. */
static void load_pairs(__m512i r[16], const hil_strip *s, int64_t i, int64_t k)
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

/* `pairs`: the panel's tiles have pairs of k as rows (B) instead of rows of the matrix (A). */
static void pack(uint16_t *panels, const hil_strip *s, bool pairs)
{
    for (int64_t panel = 0; panel < s->count; panel += 32)
        for (int64_t k = 0; k < s->depth; k += K_UNIT)
            for (int64_t i = panel; i < panel + 32; i += 16, panels += TILE) {
                __m512i r[16];
                if (s->k_stride == 1)
                    load_rows(r, s, i, k);
                else
                    load_pairs(r, s, i, k);
                if ((s->k_stride == 1) == pairs) transpose(r);
                for (int j = 0; j < 16; ++j) _mm512_storeu_si512(panels + 32 * j, r[j]);
            }
}

static void pack_a(void *panels, const hil_strip *strip)
{
    pack(panels, strip, false);
}

static void pack_b(void *panels, const hil_strip *strip)
{
    pack(panels, strip, true);
}

static void tile(const hil_tile *t)
{
    float sum[MR][NR] __attribute__((aligned(64)));
    const uint16_t *a = t->a, *b = t->b;
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < t->depth; k += K_UNIT, a += 2 * TILE, b += 2 * TILE) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + TILE, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, &sum[0][0], sizeof sum[0]);
    _tile_stored(1, &sum[0][16], sizeof sum[0]);
    _tile_stored(2, &sum[16][0], sizeof sum[0]);
    _tile_stored(3, &sum[16][16], sizeof sum[0]);
    _tile_release();
    store_tile(t, sum[0], MR, NR);
}

static void few(const hil_few *f)
{
    hil_gemm_avx512.few(f);
}

const hil_gemm_kernel hil_gemm_amx = HIL_GEMM_KERNEL("amx", K_UNIT, uint16_t);
