/* gemm_amx.c - the matrix product of bf16 by bf16 on AMX tiles.

   A panel of 32 rows is, for every 32 consecutive k, two tiles of 16 rows x 32 k. A panel of 32
   columns is likewise two tiles of 16 pairs of k x 16 columns, pairs adjacent as the instruction
   wants them. Four tiles of sums hold 32 x 32 results. Tiles flush subnormal numbers to zero. */
#include "ops/linear/gemm_pairs.h"
#include "ops/linear/gemm_rows.h"

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
