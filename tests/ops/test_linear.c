/* test_linear.c - products with a weight in tiles, with and without bias and residual. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    int64_t rows = hil_shape_rows(&c->in_shape[0]), n = c->rows[0], k = c->cols[0];
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < n; ++i) {
            double sum = c->params == 2 ? param[1][i] : 0;
            if (c->ins == 2) sum += in[1][r * n + i];
            for (int64_t j = 0; j < k; ++j) sum += in[0][r * k + j] * param[0][i * k + j];
            out[0][r * n + i] = sum;
        }
}

static op_case linear(hil_shape shape, int64_t n, bool bias)
{
    return (op_case){.op = &hil_op_linear,
                     .reference = reference,
                     .ins = 1,
                     .outs = 1,
                     .params = bias ? 2 : 1,
                     .in_shape = {shape},
                     .rows = {n, 1},
                     .cols = {hil_shape_cols(&shape), n}};
}

/* Adds a residual of the result's shape. Backward does not read it; its gradient is the result's.
 */
static op_case with_residual(op_case c)
{
    c.ins = 2;
    c.in_shape[1] = c.in_shape[0];
    c.in_shape[1].dim[c.in_shape[1].ndim - 1] = c.rows[0];
    return c;
}

int main(void)
{
    static const hil_shape shapes[] = {
        {1, {1}}, {2, {0, 4}}, {3, {2, 2, 7}}, {2, {1, 33}}, {3, {3, 4, 5}}};
    static const int64_t widths[] = {1, 5, 10, 3, 17};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
        for (int bias = 0; bias < 2; ++bias) {
            op_case c = linear(shapes[i], widths[i], bias);
            op_check_dtypes(c);
            op_check_dtypes(with_residual(c));
            c.frozen[0] = true;
            op_check_dtypes(c);
            c.frozen[0] = false;
            c.frozen[1] = true;
            c.no_din = 1;
            op_check_dtypes(c);
            op_check_dtypes(with_residual(c));
        }
    op_check_large(linear((hil_shape){2, {70, 33}}, 50, true));
    op_check_large(with_residual(linear((hil_shape){2, {70, 33}}, 50, true)));
    CHECK_INT(hil_op_linear.pass, 2);
    op_case wrong = linear(shapes[2], 10, true);
    wrong.cols[0] = 8;
    OP_REFUSED(&wrong, "linear: input (2, 2, 7) does not fit weight (10, 8)");
    wrong.cols[0] = 7;
    wrong.cols[1] = 9;
    OP_REFUSED(&wrong, "linear: parameter 1 is (1, 9), expected 10 numbers for (2, 2, 7)");
    wrong = with_residual(linear(shapes[2], 10, false));
    wrong.in_shape[1].dim[1] = 3;
    OP_REFUSED(&wrong, "linear: residual is fp32 (2, 3, 10), expected fp32 (2, 2, 10)");
    wrong = with_residual(linear(shapes[2], 10, false));
    wrong.in_dtype[1] = HIL_BF16;
    OP_REFUSED(&wrong, "linear: residual is bf16 (2, 2, 10), expected fp32 (2, 2, 10)");
    return 0;
}
