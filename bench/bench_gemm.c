/* bench_gemm.c - GFLOP/s of the matrix product for the shapes of GPT-2 124M, 4 x 512 tokens. */
#include "base/clock.h"
#include "base/cpu.h"
#include "ops/linear/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t shapes[][2] = {
    {2304, 768}, {768, 768}, {3072, 768}, {768, 3072}, {50257, 768}};

static void *filled(int64_t count, hil_dtype dtype)
{
    size_t size = hil_dtype_size(dtype);
    char *data = aligned_alloc(64, ((size_t)count * size + 63) & ~(size_t)63);
    float ones[256];
    for (int i = 0; i < 256; ++i) ones[i] = (float)(i % 7) * 0.25f - 0.5f;
    for (int64_t i = 0; i < count; i += 256)
        hil_dtype_from_f32(data + (size_t)i * size, ones, dtype, count - i < 256 ? count - i : 256);
    return data;
}

static double best(hil_pool *pool, const hil_gemm *g, int rounds)
{
    double least = 1e9;
    for (int i = 0; i < rounds; ++i) {
        double start = hil_clock_now();
        if (hil_gemm_run(pool, g) != HIL_OK) exit(1);
        double seconds = hil_clock_now() - start;
        if (seconds < least) least = seconds;
    }
    return least;
}

/* form 0: y = x W^T, 1: dx = dy W, 2: dW += dy^T x (fp32 sums). W is [n][k], x has m rows. */
static hil_gemm make(int form, int64_t m, int64_t n, int64_t k, hil_dtype dtype)
{
    hil_matrix x = hil_matrix_rows(filled(m * k, dtype), dtype, k);
    hil_matrix w = hil_matrix_rows(filled(n * k, dtype), dtype, k);
    hil_matrix dy = hil_matrix_rows(filled(m * n, dtype), dtype, n);
    if (form == 0)
        return (hil_gemm){.m = m,
                          .n = n,
                          .k = k,
                          .a = x,
                          .b = hil_matrix_transpose(w),
                          .c = (void *)dy.data,
                          .c_dtype = dtype,
                          .c_stride = n};
    if (form == 1)
        return (hil_gemm){.m = m,
                          .n = k,
                          .k = n,
                          .a = dy,
                          .b = w,
                          .c = (void *)x.data,
                          .c_dtype = dtype,
                          .c_stride = k};
    return (hil_gemm){.m = n,
                      .n = k,
                      .k = m,
                      .a = hil_matrix_transpose(dy),
                      .b = x,
                      .c = filled(n * k, HIL_F32),
                      .c_dtype = HIL_F32,
                      .c_stride = k,
                      .add = true};
}

int main(int argc, char **argv)
{
    int64_t m = argc > 1 ? strtoll(argv[1], NULL, 10) : 2048;
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5;
    hil_pool *pool;
    if (hil_pool_create(&pool, 0) != HIL_OK) return 1;
    printf("# m n k dtype form GFLOP/s (%s, %d threads)\n", hil_cpu_name(hil_cpu_best()),
           hil_pool_threads(pool));
    for (int d = HIL_F32; d <= HIL_BF16; ++d)
        for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; ++s)
            for (int form = 0; form < 3; ++form) {
                int64_t n = shapes[s][0], k = shapes[s][1];
                hil_gemm g = make(form, m, n, k, (hil_dtype)d);
                double seconds = best(pool, &g, n > 10000 ? 2 : rounds);
                static const char *const forms[] = {"xW^T", "dyW", "dy^Tx"};
                printf("%d %d %d %s %s %.1f\n", (int)m, (int)n, (int)k,
                       hil_dtype_name((hil_dtype)d), forms[form],
                       2e-9 * (double)m * (double)n * (double)k / seconds);
                fflush(stdout);
            }
    hil_pool_destroy(pool);
    return 0;
}
