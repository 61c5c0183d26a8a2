/* test_add.c - the residual sum, rounded once. */
#include "ops/op_refused.h"

static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    int64_t count = hil_shape_count(&c->in_shape[0]);
    for (int64_t i = 0; i < count; ++i) out[0][i] = in[0][i] + in[1][i];
}

int main(void)
{
    static const hil_shape shapes[] = {{1, {1}}, {1, {0}}, {3, {2, 3, 17}}, {2, {41, 401}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
        op_check_dtypes((op_case){.op = &hil_op_add,
                                  .reference = reference,
                                  .out = OP_COMPUTE,
                                  .ins = 2,
                                  .outs = 1,
                                  .in_shape = {shapes[i], shapes[i]}});
    CHECK_INT(hil_op_add.pass, 3);
    CHECK(!hil_op_add.backward);
    op_case wrong = {.op = &hil_op_add, .ins = 2, .in_shape = {{2, {3, 4}}, {2, {3, 5}}}};
    OP_REFUSED(&wrong, "add: input 1 is (3, 5), but input 0 is (3, 4)");
    return 0;
}
