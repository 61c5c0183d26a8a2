/* test_split.c - parts of the last dimension, and gradients that did not arrive. */
#include "ops/op_check.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    int64_t rows = hil_shape_rows(&c->in_shape[0]), n = hil_shape_cols(&c->in_shape[0]) / c->outs;
    for (int64_t r = 0; r < rows; ++r)
        for (int i = 0; i < c->outs; ++i)
            for (int64_t j = 0; j < n; ++j) out[i][r * n + j] = in[0][(r * c->outs + i) * n + j];
}

int main(void)
{
    static const hil_shape shapes[] = {
        {1, {1}}, {2, {0, 6}}, {3, {2, 9, 6}}, {2, {3, 12}}, {2, {2, 4200}}};
    static const int parts[] = {1, 2, 3, 4, 2};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        op_case c = {.op = &hil_op_split,
                     .reference = reference,
                     .out = OP_INPUT,
                     .ins = 1,
                     .outs = parts[i],
                     .in_shape = {shapes[i]}};
        if (i == 4) {
            op_check_large(c);
            continue;
        }
        op_check_dtypes(c);
        c.no_dout = 2;
        if (parts[i] > 1) op_check_dtypes(c);
    }
    op_case wrong = {.op = &hil_op_split, .ins = 1, .outs = 3, .in_shape = {{2, {2, 7}}}};
    OP_REFUSED(&wrong, "split: (2, 7) does not divide into 3 equal parts");
    return 0;
}
