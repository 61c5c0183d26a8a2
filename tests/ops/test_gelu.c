/* test_gelu.c - both variants of GELU and their gradients. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    bool tanh_variant = ((const hil_gelu_attr *)c->attr)->tanh;
    int64_t count = hil_shape_count(&c->in_shape[0]);
    for (int64_t i = 0; i < count; ++i) {
        double x = in[0][i];
        out[0][i] = tanh_variant ? 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))
                                 : 0.5 * x * erfc(-x / sqrt(2));
    }
}

int main(void)
{
    static const hil_shape shapes[] = {
        {1, {1}}, {1, {0}}, {3, {2, 3, 17}}, {3, {0, 4, 8}}, {2, {41, 401}}};
    for (int variant = 0; variant < 2; ++variant)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
            hil_gelu_attr attr = {variant};
            op_case c = {.op = &hil_op_gelu,
                         .attr = &attr,
                         .reference = reference,
                         .ins = 1,
                         .outs = 1,
                         .in_shape = {shapes[i]},
                         .spread = i == 2 ? 12 : 3};
            if (i < 4)
                op_check_dtypes(c);
            else
                op_check_large(c);
        }
    hil_gelu_attr attr = {false};
    op_case wrong = {
        .op = &hil_op_gelu, .attr = &attr, .ins = 1, .in_dtype = {HIL_I32}, .in_shape = {{1, {3}}}};
    OP_REFUSED(&wrong, "gelu: input 0 is int32");
    return 0;
}
