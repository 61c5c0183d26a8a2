/* test_weight_norm.c - norms of the rows of W + s B A. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)in;
    int64_t n = c->rows[0], k = c->cols[0], rank = c->rows[1];
    double scale = ((const hil_weight_norm_attr *)c->attr)->scale;
    for (int64_t i = 0; i < n; ++i) {
        double square = 0;
        for (int64_t j = 0; j < k; ++j) {
            double x = param[0][i * k + j];
            for (int64_t r = 0; r < rank; ++r)
                x += scale * param[2][i * rank + r] * param[1][r * k + j];
            square += x * x;
        }
        out[0][i] = sqrt(square);
    }
}

int main(void)
{
    static const int64_t shapes[][3] = {{1, 1, 1}, {7, 5, 2}, {70, 33, 8}, {130, 200, 17}};
    static const double scales[] = {2, 0.1, 0};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; ++s)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
            hil_weight_norm_attr attr = {scales[s]};
            int64_t n = shapes[i][0], k = shapes[i][1], rank = shapes[i][2];
            op_check_dtypes((op_case){.op = &hil_op_weight_norm,
                                      .attr = &attr,
                                      .reference = reference,
                                      .out = OP_FP32,
                                      .outs = 1,
                                      .params = 3,
                                      .no_dout = 1,
                                      .rows = {n, rank, n},
                                      .cols = {k, k, rank},
                                      .frozen = {true, true, true}});
        }
    hil_weight_norm_attr attr = {1};
    op_case wrong = {.op = &hil_op_weight_norm,
                     .attr = &attr,
                     .params = 3,
                     .rows = {4, 2, 4},
                     .cols = {5, 6, 2}};
    OP_REFUSED(&wrong, "weight norm: matrices (2, 6) and (4, 2) do not fit weight (4, 5)");
    return 0;
}
