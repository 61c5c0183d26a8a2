/* gemm_portable.c - the matrix product's kernels in plain C, for any machine. */
#include "ops/gemm_rows.h"

#define MR 4
#define NR 8

static void pack_a(void *panel, const hil_strip *strip)
{
    pack_any(panel, strip, MR);
}

static void pack_b(void *panel, const hil_strip *strip)
{
    pack_any(panel, strip, NR);
}

static void tile(const hil_tile *t)
{
    float sum[MR][NR] = {{0}};
    const float *a = t->a, *b = t->b;
    for (int64_t k = 0; k < t->depth; ++k, a += MR, b += NR)
        for (int i = 0; i < MR; ++i)
            for (int j = 0; j < NR; ++j) sum[i][j] += a[i] * b[j];
    for (int i = 0; i < MR; ++i)
        store_row_f32(t->c + i * t->c_stride,
                      &(hil_store){.from = sum[i], .bias = t->bias, .count = NR, .add = t->add});
}

const hil_gemm_kernel hil_gemm_portable = {
    .name = "portable",
    .mr = MR,
    .nr = NR,
    .k_unit = 1,
    .element = sizeof(float),
    .pack_a = pack_a,
    .pack_b = pack_b,
    .tile = tile,
    .store = store_row,
};

const hil_gemm_kernel *hil_gemm_choose(hil_dtype a, hil_dtype b)
{
    (void)a;
    (void)b;
    return &hil_gemm_portable;
}
