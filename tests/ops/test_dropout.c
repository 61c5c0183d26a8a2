/* test_dropout.c - the mask: its rate, its gradient, and the inputs that determine it. */
#include "ops/op_refused.h"

enum { B = 4, T = 25, C = 31 };

static void apply(double rate, int64_t batch, int64_t sequence, uint32_t site, int64_t step,
                  float *out)
{
    static float x[B * T * C];
    for (int i = 0; i < B * T * C; ++i) x[i] = 1;
    hil_dropout_attr attr = {rate};
    hil_op_call call = {.op = &hil_op_dropout,
                        .attr = &attr,
                        .ins = 1,
                        .random = {.seed = 5, .step = step, .sequence = sequence, .site = site},
                        .in = {{HIL_F32, {3, {batch, T, C}}, x}}};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    CHECK_OK(hil_op_dropout.infer(&call));
    call.out[0].data = out;
    CHECK_OK(hil_op_dropout.forward(&call));
    hil_pool_destroy(call.pool);
}

static float whole[B * T * C], other[B * T * C];

static int differences(void)
{
    int count = 0;
    for (int i = 0; i < B * T * C; ++i) count += (whole[i] > 0) != (other[i] > 0);
    return count;
}

/* The reference multiplies by the mask that forward used. */
static void reference(const op_case *c, double *const *in, double *const *param, double *const *out)
{
    (void)param;
    int64_t count = hil_shape_count(&c->in_shape[0]);
    apply(0.25, c->in_shape[0].dim[0], 0, 3, 7, other);
    for (int64_t i = 0; i < count; ++i) out[0][i] = in[0][i] * (double)other[i];
}

int main(void)
{
    apply(0.25, B, 40, 2, 6, whole);
    int zeros = 0;
    for (int i = 0; i < B * T * C; ++i) {
        zeros += whole[i] == 0;
        CHECK(whole[i] == 0 || whole[i] == 1 / 0.75f);
    }
    CHECK_NEAR((double)zeros / (B * T * C), 0.25, 0.025); /* three standard deviations */
    for (int b = 0; b < B; ++b) {                         /* each sequence has its own mask */
        apply(0.25, 1, 40 + b, 2, 6, other);
        CHECK(memcmp(other, whole + b * T * C, sizeof(float) * T * C) == 0);
    }
    apply(0.25, B, 40, 3, 6, other);
    CHECK(differences() > B * T * C / 4);
    apply(0.25, B, 40, 2, 7, other);
    CHECK(differences() > B * T * C / 4);
    apply(0.25, B, 44, 2, 6, other);
    CHECK(differences() > B * T * C / 4);
    apply(0, B, 40, 2, 6, other);
    for (int i = 0; i < B * T * C; ++i) CHECK(other[i] == 1);

    hil_dropout_attr attr = {0.25};
    op_case c = {.op = &hil_op_dropout,
                 .attr = &attr,
                 .reference = reference,
                 .out = OP_INPUT,
                 .ins = 1,
                 .outs = 1,
                 .random = {.seed = 5, .step = 7, .site = 3},
                 .in_shape = {{3, {2, T, C}}}};
    op_check_large(c);
    c.in_shape[0].dim[0] = 0;
    op_check_dtypes(c);
    attr.rate = 1;
    OP_REFUSED(&c, "dropout: rate 1");
    return 0;
}
