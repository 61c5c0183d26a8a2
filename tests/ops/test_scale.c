/* test_scale.c - x times a number, and its gradient. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    double factor = ((const hil_scale_attr *)c->attr)->factor * (c->params ? param[0][0] : 1);
    int64_t count = hil_shape_count(&c->in_shape[0]);
    for (int64_t i = 0; i < count; ++i) out[0][i] = in[0][i] * factor;
}

int main(void)
{
    static const hil_shape shapes[] = {{1, {1}}, {1, {0}}, {3, {2, 3, 17}}, {2, {41, 401}}};
    static const double factors[] = {2, -0.375, 0};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; ++f)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
            hil_scale_attr attr = {factors[f]};
            op_case c = {.op = &hil_op_scale,
                         .attr = &attr,
                         .reference = reference,
                         .ins = 1,
                         .outs = 1,
                         .in_shape = {shapes[i]}};
            if (i < 3)
                op_check_dtypes(c);
            else
                op_check_large(c);
            c.params = 1, c.rows[0] = c.cols[0] = 1, c.frozen[0] = true;
            if (i < 3) op_check_dtypes(c);
        }
    hil_scale_attr attr = {1};
    op_case wrong = {.op = &hil_op_scale,
                     .attr = &attr,
                     .ins = 1,
                     .in_dtype = {HIL_I32},
                     .in_shape = {{1, {3}}}};
    OP_REFUSED(&wrong, "scale: input 0 is int32");
    wrong.in_dtype[0] = HIL_F32;
    wrong.params = 1, wrong.rows[0] = wrong.cols[0] = 1;
    OP_REFUSED(&wrong, "scale: a factor that is trained is not supported");
    return 0;
}
