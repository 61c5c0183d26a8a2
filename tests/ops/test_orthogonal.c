/* test_orthogonal.c - the orthogonal matrix nearest to one: against the same steps in double, and
   the same bits for any number of threads. */
#include "check.h"
#include "ops/ops.h"
#include "base/normal.h"

#include <math.h>

typedef struct sizes {
    int64_t rows, cols;
} sizes;

static void *memory(size_t bytes)
{
    void *out = calloc(bytes + 64, 1);
    CHECK(out != NULL);
    return out;
}

/* c (m x n) = a (m x k) * b (k x n). */
static void multiply(const int64_t mnk[3], const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < mnk[0]; ++i)
        for (int64_t j = 0; j < mnk[1]; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < mnk[2]; ++k) sum += a[i * mnk[2] + k] * b[k * mnk[1] + j];
            c[i * mnk[1] + j] = sum;
        }
}

/* The polynomial 3.4445 x + (-4.7750 G + 2.0315 G G) x, five times, with G = x x'. */
static void reference(double *x, sizes s)
{
    double *t = memory((size_t)(s.rows * s.cols) * 8), *y = memory((size_t)(s.rows * s.cols) * 8);
    double *g = memory((size_t)(s.rows * s.rows) * 8), *g2 = memory((size_t)(s.rows * s.rows) * 8);
    double norm = 0;
    for (int64_t i = 0; i < s.rows * s.cols; ++i) norm += x[i] * x[i];
    for (int64_t i = 0; i < s.rows * s.cols; ++i) x[i] /= fmax(sqrt(norm), 1e-7);
    for (int step = 0; step < 5; ++step) {
        for (int64_t i = 0; i < s.rows; ++i)
            for (int64_t j = 0; j < s.cols; ++j) t[j * s.rows + i] = x[i * s.cols + j];
        multiply((int64_t[]){s.rows, s.rows, s.cols}, x, t, g);
        multiply((int64_t[]){s.rows, s.rows, s.rows}, g, g, g2);
        for (int64_t i = 0; i < s.rows * s.rows; ++i) g[i] = -4.7750 * g[i] + 2.0315 * g2[i];
        multiply((int64_t[]){s.rows, s.cols, s.rows}, g, x, y);
        for (int64_t i = 0; i < s.rows * s.cols; ++i) x[i] = 3.4445 * x[i] + y[i];
    }
    free(t);
    free(y);
    free(g);
    free(g2);
}

static void run(int threads, hil_dtype dtype, sizes s, const void *x, void *y)
{
    hil_pool *pool;
    CHECK_OK(hil_pool_create(&pool, threads));
    hil_op_call call = {.op = &hil_op_orthogonal,
                        .pool = pool,
                        .compute = dtype,
                        .ins = 1,
                        .in = {{dtype, {2, {s.rows, s.cols}}, (void *)(uintptr_t)x}}};
    CHECK_OK(hil_op_infer(&call));
    CHECK_INT(call.outs, 1);
    char *scratch = memory(call.forward_scratch + 64);
    call.scratch = (void *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    call.out[0].data = y;
    CHECK_OK(hil_op_forward(&call));
    free(scratch);
    hil_pool_destroy(pool);
}

static void check(hil_dtype dtype, sizes s, float spread)
{
    int64_t n = s.rows * s.cols;
    size_t bytes = (size_t)n * hil_dtype_size(dtype);
    float *numbers = memory((size_t)n * 4), *got = memory((size_t)n * 4);
    double *expected = memory((size_t)n * 8);
    void *x = memory(bytes), *one = memory(bytes), *many = memory(bytes);
    hil_normal_fill(5, 3, 0, n, spread, numbers);
    hil_dtype_from_f32(x, numbers, dtype, n);
    hil_dtype_to_f32(numbers, x, dtype, n);
    bool tall = s.rows > s.cols; /* the reference has the shorter side first */
    for (int64_t i = 0; i < s.rows; ++i)
        for (int64_t j = 0; j < s.cols; ++j)
            expected[tall ? j * s.rows + i : i * s.cols + j] = (double)numbers[i * s.cols + j];
    reference(expected, tall ? (sizes){s.cols, s.rows} : s);
    run(1, dtype, s, x, one);
    run(3, dtype, s, x, many);
    CHECK(memcmp(one, many, bytes) == 0);
    hil_dtype_to_f32(got, one, dtype, n);
    double error = 0, most = 0, scale = 0.2 * sqrt((double)(tall ? s.rows : s.cols));
    for (int64_t i = 0; i < s.rows; ++i)
        for (int64_t j = 0; j < s.cols; ++j) {
            double e = scale * expected[tall ? j * s.rows + i : i * s.cols + j];
            error = fmax(error, fabs((double)got[i * s.cols + j] - e));
            most = fmax(most, fabs(e));
        }
    printf("%lld x %lld: off by %.3f of the largest\n", (long long)s.rows, (long long)s.cols,
           most > 0 ? error / most : error);
    CHECK(error <= 0.05 * most); /* bf16 has 8 bits, and five steps amplify */
    free(numbers);
    free(got);
    free(expected);
    free(x);
    free(one);
    free(many);
}

int main(void)
{
    static const sizes all[] = {{1, 1}, {5, 9}, {40, 16}, {33, 70}, {64, 64}, {96, 24}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        for (int d = 0; d < 2; ++d) check(d ? HIL_BF16 : HIL_F32, all[i], d ? 1e-6f : 3.0f);
    check(HIL_F32, (sizes){6, 4}, 0); /* no gradient: stays zero */
    return 0;
}
