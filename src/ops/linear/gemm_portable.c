/* gemm_portable.c - the matrix product's kernels in plain C, for any machine. */
#include "ops/linear/gemm_rows.h"

#define MR 4
#define NR 8
#define BLOCK_ROWS 288
#define LANES 8

static void pack_a(void *panels, const hil_strip *strip)
{
    pack_any(panels, strip, MR);
}

static void pack_b(void *panels, const hil_strip *strip)
{
    pack_any(panels, strip, NR);
}

static void tile(const hil_tile *t)
{
    float sum[MR][NR] = {{0}};
    const float *a = t->a, *b = t->b;
    for (int64_t k = 0; k < t->depth; ++k, a += MR, b += NR)
        for (int i = 0; i < MR; ++i)
            for (int j = 0; j < NR; ++j) sum[i][j] += a[i] * b[j];
    store_tile(t, sum[0], MR, NR);
}

/* Computes one column at a time, in LANES partial sums. */
static void few(const hil_few *f)
{
    hil_strip strip = {.data = f->b, .dtype = f->b_dtype, .stride = f->b_stride, .k_stride = 1};
    for (int64_t column = 0; column < f->columns; ++column) {
        float sum[HIL_GEMM_FEW][LANES] = {{0}};
        for (int64_t k = 0; k < f->k; k += LANES) {
            float b[LANES] = {0};
            int64_t count = f->k - k < LANES ? f->k - k : LANES;
            for (int64_t l = 0; l < count; ++l) b[l] = strip_load(&strip, column, k + l);
            for (int64_t i = 0; i < f->m; ++i)
                for (int64_t l = 0; l < count; ++l) sum[i][l] += f->a[i * f->k + k + l] * b[l];
        }
        for (int64_t i = 0; i < f->m; ++i) {
            float total = 0;
            for (int l = 0; l < LANES; ++l) total += sum[i][l];
            f->c[i * f->c_stride + column] = total;
        }
    }
}

const hil_gemm_kernel hil_gemm_portable = HIL_GEMM_KERNEL("portable", 1, float);
