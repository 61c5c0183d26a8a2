/* test_magnitude.c - z * magnitude / norm + bias + residual, and its gradients. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t rows = hil_shape_rows(&c->in_shape[0]), n = hil_shape_cols(&c->in_shape[0]);
    for (int64_t i = 0; i < rows * n; ++i)
        out[0][i] = in[0][i] * param[0][i % n] / in[1][i % n] +
                    (c->params == 2 ? param[1][i % n] : 0) + (c->ins == 3 ? in[2][i] : 0);
}

int main(void)
{
    static const hil_shape shapes[] = {{1, {3}}, {3, {2, 3, 17}}, {2, {41, 401}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
        for (int variant = 0; variant < 6; ++variant) {
            int64_t n = hil_shape_cols(&shapes[i]);
            op_case c = {.op = &hil_op_magnitude,
                         .reference = reference,
                         .ins = 2 + variant % 2,
                         .outs = 1,
                         .params = 1 + (variant > 1),
                         .in_shape = {shapes[i], {1, {n}}, shapes[i]},
                         .no_din = 2,
                         .rows = {1, 1},
                         .cols = {n, n},
                         .frozen = {false, variant > 3},
                         .slack = 1e-5};
            if (i < 2)
                op_check_dtypes(c);
            else
                op_check_large(c);
        }
    op_case wrong = {.op = &hil_op_magnitude,
                     .ins = 2,
                     .params = 1,
                     .in_shape = {{2, {3, 4}}, {1, {5}}},
                     .rows = {1},
                     .cols = {4}};
    OP_REFUSED(&wrong, "magnitude: norms (5) do not fit (3, 4)");
    return 0;
}
