/* test_swiglu.c - silu(gate) * up and its gradients. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    int64_t count = hil_shape_count(&c->in_shape[0]);
    for (int64_t i = 0; i < count; ++i) out[0][i] = in[0][i] / (1 + exp(-in[0][i])) * in[1][i];
}

int main(void)
{
    static const hil_shape shapes[] = {
        {1, {1}}, {1, {0}}, {3, {2, 3, 17}}, {3, {3, 0, 8}}, {2, {41, 401}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        op_case c = {.op = &hil_op_swiglu,
                     .reference = reference,
                     .ins = 2,
                     .outs = 1,
                     .in_shape = {shapes[i], shapes[i]},
                     .spread = 4};
        if (i == 4) {
            op_check_large(c);
            continue;
        }
        op_check_dtypes(c);
        for (c.no_din = 1; c.no_din <= 2; ++c.no_din) op_check_dtypes(c);
    }
    op_case wrong = {.op = &hil_op_swiglu, .ins = 2, .in_shape = {{2, {3, 4}}, {2, {4, 3}}}};
    OP_REFUSED(&wrong, "swiglu: input 1 is (4, 3), but input 0 is (3, 4)");
    return 0;
}
