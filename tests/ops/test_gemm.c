/* The matrix product against a triple loop in double, in every form and dtype, with odd sizes. Its
   bits do not depend on the number of threads or on how rows and columns are split into calls. */
#include "each_level.h"
#include "ops/linear/gemm.h"

typedef struct random_state {
    uint64_t x;
} random_state;

static float next(random_state *r)
{
    r->x = r->x * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(r->x >> 40) * 0x1p-23 - 1.0);
}

static float get(const void *data, hil_dtype dtype, int64_t i)
{
    float x;
    hil_dtype_to_f32(&x, (const char *)data + (size_t)i * hil_dtype_size(dtype), dtype, 1);
    return x;
}

static void *numbers(random_state *r, hil_dtype dtype, int64_t count)
{
    float *x = calloc((size_t)count + 1, 4);
    for (int64_t i = 0; i < count; ++i) x[i] = next(r);
    void *out = calloc((size_t)count + 1, 4);
    hil_dtype_from_f32(out, x, dtype, count);
    free(x);
    return out;
}

typedef enum target { ALONE, TO_C, TO_BASE, TARGETS } target; /* what the product is added to */

typedef struct form {
    hil_dtype a, b, c;
    bool a_transposed, b_transposed, bias;
    target target;
} form;

static hil_gemm make(random_state *r, const form *f, int64_t m, int64_t n, int64_t k)
{
    int64_t pad = 3;
    hil_gemm g = {.m = m, .n = n, .k = k, .c_dtype = f->c, .c_stride = n + pad};
    g.add = f->target == TO_C;
    int64_t a_stride = (f->a_transposed ? m : k) + pad, b_stride = (f->b_transposed ? k : n) + pad;
    g.a = hil_matrix_rows(numbers(r, f->a, (m + k) * a_stride), f->a, a_stride);
    g.b = hil_matrix_rows(numbers(r, f->b, (n + k) * b_stride), f->b, b_stride);
    if (f->a_transposed) g.a = hil_matrix_transpose(g.a);
    if (f->b_transposed) g.b = hil_matrix_transpose(g.b);
    g.c = numbers(r, f->c, m * g.c_stride);
    g.bias_dtype = f->b;
    if (f->bias) g.bias = numbers(r, f->b, n);
    if (f->target == TO_BASE) g.base = numbers(r, f->c, m * g.c_stride);
    return g;
}

static void discard(const hil_gemm *g)
{
    free((void *)g->a.data);
    free((void *)g->b.data);
    free((void *)g->bias);
    free((void *)g->base);
    free(g->c);
}

/* The matrix in double, row-major. */
static double *widened(const hil_matrix *m, int64_t rows, int64_t cols)
{
    double *out = calloc((size_t)(rows * cols) + 1, sizeof(double));
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j)
            out[i * cols + j] = get(m->data, m->dtype, i * m->row_stride + j * m->col_stride);
    return out;
}

static void check_against_loop(hil_pool *pool, const hil_gemm *g)
{
    size_t bytes = (size_t)(g->m * g->c_stride) * hil_dtype_size(g->c_dtype);
    void *before = malloc(bytes + 1);
    memcpy(before, g->c, bytes);
    CHECK_OK(hil_gemm_run(pool, g));
    double *a = widened(&g->a, g->m, g->k), *b = widened(&g->b, g->k, g->n);
    for (int64_t i = 0; i < g->m; ++i)
        for (int64_t j = 0; j < g->c_stride; ++j) {
            double old = get(before, g->c_dtype, i * g->c_stride + j);
            double got = get(g->c, g->c_dtype, i * g->c_stride + j);
            if (j >= g->n) {
                CHECK_NEAR(got, old, 0);
                continue;
            }
            double sum = 0, size = 1;
            for (int64_t k = 0; k < g->k; ++k) {
                double term = a[i * g->k + k] * b[k * g->n + j];
                sum += term;
                size += fabs(term);
            }
            if (g->add) sum += old;
            if (g->base) sum += get(g->base, g->c_dtype, i * g->c_stride + j);
            if (g->bias) sum += get(g->bias, g->bias_dtype, j);
            double rounding = g->c_dtype == HIL_F32    ? 0
                              : g->c_dtype == HIL_BF16 ? fabs(sum) * 0x1p-8
                                                       : fabs(sum) * 0x1p-10;
            CHECK_NEAR(got, sum, size * 2e-6 + rounding);
        }
    free(a);
    free(b);
    free(before);
}

static void check_forms(hil_pool *pool)
{
    static const int64_t sizes[][3] = {{1, 1, 1},   {0, 5, 3},    {5, 0, 3},    {5, 7, 0},
                                       {1, 70, 33}, {2, 13, 100}, {8, 65, 129}, {9, 17, 5},
                                       {16, 48, 8}, {33, 50, 70}, {61, 97, 40}, {15, 31, 800}};
    static const hil_dtype dtypes[] = {HIL_F32, HIL_BF16, HIL_F16};
    random_state r = {1};
    for (unsigned bits = 0; bits < 8 * TARGETS; ++bits)
        for (unsigned d = 0; d < 27; ++d)
            for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
                bool mixed = d % 13 != 0;
                if (mixed && s % 8 != (d + bits) % 8) continue;
                form f = {.a = dtypes[d % 3],
                          .b = dtypes[d / 3 % 3],
                          .c = dtypes[d / 9],
                          .a_transposed = bits & 1,
                          .b_transposed = bits & 2,
                          .bias = bits & 4,
                          .target = (target)(bits / 8)};
                hil_gemm g = make(&r, &f, sizes[s][0], sizes[s][1], sizes[s][2]);
                check_against_loop(pool, &g);
                discard(&g);
            }
}

/* Computes one product twice, the second time split into calls of `rows` x `columns`. */
static void check_cuts(hil_pool *pool, hil_pool *other, const form *f, int64_t m, int64_t rows,
                       int64_t columns)
{
    random_state r = {(uint64_t)m};
    int64_t n = 200, k = 900;
    hil_gemm g = make(&r, f, m, n, k);
    size_t size = hil_dtype_size(f->c), bytes = (size_t)(m * g.c_stride) * size;
    char *before = malloc(bytes), *whole = malloc(bytes);
    memcpy(before, g.c, bytes);
    CHECK_OK(hil_gemm_run(pool, &g));
    memcpy(whole, g.c, bytes);
    memcpy(g.c, before, bytes);
    for (int64_t i = 0; i < m; i += rows)
        for (int64_t j = 0; j < n; j += columns) {
            hil_gemm part = g;
            part.m = m - i < rows ? m - i : rows;
            part.n = n - j < columns ? n - j : columns;
            part.a.data =
                (const char *)g.a.data + (size_t)(i * g.a.row_stride) * hil_dtype_size(g.a.dtype);
            part.b.data =
                (const char *)g.b.data + (size_t)(j * g.b.col_stride) * hil_dtype_size(g.b.dtype);
            part.c = (char *)g.c + (size_t)(i * g.c_stride + j) * size;
            if (g.base) part.base = (const char *)g.base + (size_t)(i * g.c_stride + j) * size;
            if (g.bias) part.bias = (const char *)g.bias + (size_t)j * hil_dtype_size(g.bias_dtype);
            CHECK_OK(hil_gemm_run(other, &part));
        }
    CHECK(memcmp(whole, g.c, bytes) == 0);
    free(before);
    free(whole);
    discard(&g);
}

static void check_bits(hil_pool *pool, hil_pool *other)
{
    unsigned step =
        CHECK_SLOW ? 5 : 1; /* 5 still covers both values of each bit, and every target */
    for (unsigned bits = 0; bits < 16 * TARGETS; bits += step) {
        hil_dtype dtype = bits & 4 ? HIL_BF16 : HIL_F32;
        form f = {.a = dtype,
                  .b = dtype,
                  .c = bits & 8 ? HIL_BF16 : HIL_F32,
                  .a_transposed = bits & 1,
                  .b_transposed = bits & 2,
                  .bias = bits & 1,
                  .target = (target)(bits / 16)};
        check_cuts(pool, other, &f, 145, 145, 64);
        check_cuts(pool, other, &f, 145, 34, 128);
        check_cuts(pool, other, &f, 3, 3, 64);
        check_cuts(pool, other, &f, 8, 8, 64);
    }
}

/* A zero factor must not hide a NaN or an infinity. */
static void check_nan(hil_pool *pool)
{
    enum { M = 20, N = 70, K = 30 };
    static float a[M * K], b[N * K], c[M * N];
    b[5 * K + 7] = NAN;
    b[60 * K + 1] = INFINITY;
    hil_gemm g = {.c = c, .c_dtype = HIL_F32, .c_stride = N, .m = M, .n = N, .k = K};
    g.a = hil_matrix_rows(a, HIL_F32, K);
    g.b = hil_matrix_transpose(hil_matrix_rows(b, HIL_F32, K));
    for (g.m = 1; g.m <= M; g.m += M - 1) {
        CHECK_OK(hil_gemm_run(pool, &g));
        for (int64_t i = 0; i < g.m * N; ++i)
            CHECK_INT(isnan(c[i]) != 0, i % N == 5 || i % N == 60);
    }
}

static void check(hil_pool *one, hil_pool *three)
{
    check_forms(three);
    check_bits(three, one);
    check_nan(three);
}

int main(void)
{
    each_level(check);
    return 0;
}
