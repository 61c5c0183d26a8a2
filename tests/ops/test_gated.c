/* test_gated.c - SwiGLU of two products with adapters, the next adapter's first product, and the
   gradients. */
#include "ops/op_refused.h"

#include <math.h>

static const hil_gated_attr twice = {2};

/* out (rows x n) = base + h B'. */
static double adapted(const double *const in[3], int64_t row, int64_t col, int64_t n, int64_t rank)
{
    double sum = in[0][row * n + col];
    for (int64_t r = 0; r < rank; ++r) sum += in[1][row * rank + r] * in[2][col * rank + r];
    return sum;
}

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t n = c->rows[0], rows = hil_shape_count(&c->in_shape[0]) / n, rank = c->rows[2];
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 0; i < n; ++i) {
            double gate =
                adapted((const double *[]){in[0], in[2], param[0]}, row, i, n, c->cols[0]);
            double up = adapted((const double *[]){in[1], in[3], param[1]}, row, i, n, c->cols[1]);
            out[0][row * n + i] = gate / (1 + exp(-gate)) * up;
        }
        for (int64_t r = 0; r < rank; ++r) {
            double sum = 0;
            for (int64_t i = 0; i < n; ++i) sum += out[0][row * n + i] * param[2][r * n + i];
            out[1][row * rank + r] = 2 * sum;
        }
    }
}

static op_case case_of(int64_t rows, int64_t n, const int64_t rank[3])
{
    return (op_case){.op = &hil_op_gated,
                     .attr = &twice,
                     .reference = reference,
                     .ins = 4,
                     .outs = 2,
                     .params = 3,
                     .in_shape = {{3, {2, rows / 2, n}},
                                  {3, {2, rows / 2, n}},
                                  {3, {2, rows / 2, rank[0]}},
                                  {3, {2, rows / 2, rank[1]}}},
                     .rows = {n, n, rank[2]},
                     .cols = {rank[0], rank[1], n}};
}

static void check_suits(void)
{
    const int64_t good[3] = {16, 8, 2}, odd[3] = {16, 7, 2}, wide[3] = {16, 16, 18};
    CHECK(hil_gated_suits(HIL_BF16, 1024, 4096, good));
    CHECK(!hil_gated_suits(HIL_F32, 1024, 4096, good));
    CHECK(!hil_gated_suits(HIL_BF16, 1024, 4096, odd));
    CHECK(!hil_gated_suits(HIL_BF16, 1024, 4096, wide));
    CHECK(!hil_gated_suits(HIL_BF16, 1040, 4096, good));
    CHECK(!hil_gated_suits(HIL_BF16, 1024, 4128, good));
    CHECK(!hil_gated_suits(HIL_BF16, 512, 4096, good));
}

int main(void)
{
    const int64_t rank[3] = {3, 2, 4};
    op_case c = case_of(6, 9, rank);
    op_check_fp32(c);
    c.frozen[0] = true, c.no_din = 1 << 1;
    op_check_fp32(c);
    c.frozen[0] = false, c.frozen[2] = true, c.no_din = 1 << 2;
    op_check_fp32(c);
    c = case_of(6, 9, rank), c.no_dout = 1;
    op_check_fp32(c);
    c.no_dout = 2;
    op_check_fp32(c);
    c = case_of(70, 5, rank), c.samples = 20; /* more than one chunk */
    op_check_fp32(c);
    op_case wrong = case_of(6, 9, rank);
    wrong.cols[2] = 8;
    OP_REFUSED(&wrong, "gated: matrix 2, (4, 8), does not fit (2, 3, 9)");
    wrong = case_of(6, 9, rank), wrong.in_shape[3].dim[2] = 3;
    OP_REFUSED(&wrong, "gated: matrix 1, (9, 2), does not fit (2, 3, 9)");
    wrong = case_of(6, 9, rank), wrong.params = 2;
    OP_REFUSED(&wrong, "gated: 4 inputs and 2 parameters, expected 4 and 3");
    check_suits();
    return 0;
}
