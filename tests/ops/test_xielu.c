/* test_xielu.c - xIELU, and its gradients by x and by its two trained numbers. */
#include "ops/op_refused.h"

static double softplus(double x)
{
    return log1p(exp(x));
}

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    double beta = param[2][0], eps = param[3][0];
    double a = softplus(param[0][0]), b = beta + softplus(param[1][0]);
    for (int64_t i = 0; i < hil_shape_count(&c->in_shape[0]); ++i) {
        double x = in[0][i], less = expm1(fmin(x, eps)) - x;
        out[0][i] = (x > 0 ? a * x * x : b * less) + beta * x;
    }
}

int main(void)
{
    static const hil_shape shapes[] = {{1, {1}}, {1, {0}}, {3, {2, 3, 17}}, {2, {41, 401}}};
    op_case c = {.op = &hil_op_xielu,
                 .reference = reference,
                 .ins = 1,
                 .outs = 1,
                 .params = 4,
                 .rows = {1, 1, 1, 1},
                 .cols = {1, 1, 1, 1},
                 .frozen = {false, false, true, true},
                 .spread = 3};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        c.in_shape[0] = shapes[i];
        c.slack = 2e-6;
        if (i == 3) {
            op_check_large(c);
            continue;
        }
        op_check_fp32(c);
        c.slack = 2e-5;
        op_check_dtypes(c);
        c.frozen[1] = true;
        op_check_dtypes(c);
        c.frozen[1] = false;
    }
    c.frozen[3] = false;
    OP_REFUSED(&c, "xielu: expected four numbers, the last two not trained");
    c.frozen[3] = true, c.cols[1] = 2;
    OP_REFUSED(&c, "xielu");
    return 0;
}
