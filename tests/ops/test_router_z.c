/* test_router_z.c - the loss that keeps a router's logits small: against a formula in double, its
   gradient against finite differences, added to one that is there. */
#include "ops/op_refused.h"

enum { ROWS = 70, EXPERTS = 19, LAYERS = 3, NUMBERS = ROWS * EXPERTS };
#define COEFFICIENT 0.02

typedef struct routed {
    float logits[NUMBERS], din[NUMBERS], size[ROWS], out[2];
    int32_t target[ROWS];
    double expected; /* loss times targets */
} routed;

static void find_expected(routed *r)
{
    double squares = 0;
    for (int row = 0; row < ROWS; ++row) {
        double sum = 0;
        if (r->target[row] < 0) continue;
        for (int e = 0; e < EXPERTS; ++e) sum += exp((double)r->logits[row * EXPERTS + e]);
        squares += log(sum) * log(sum);
    }
    r->expected = squares / LAYERS;
}

static void run(routed *r, float scale, bool add, int threads)
{
    static _Alignas(64) char scratch[1 << 15];
    const hil_router_z_attr attr = {COEFFICIENT, LAYERS};
    hil_op_call call = {.op = &hil_op_router_z,
                        .attr = &attr,
                        .loss_scale = scale,
                        .ins = 2,
                        .in = {{HIL_F32, {3, {2, ROWS / 2, EXPERTS}}, r->logits},
                               {HIL_I32, {2, {2, ROWS / 2}}, r->target}}};
    CHECK_OK(hil_pool_create(&call.pool, threads));
    CHECK_OK(hil_op_infer(&call));
    CHECK(call.forward_scratch <= sizeof scratch && call.backward_scratch <= sizeof scratch);
    call.scratch = scratch;
    call.out[0].data = r->out;
    call.saved[0].data = r->size;
    CHECK_OK(hil_op_forward(&call));
    call.din[0] = (hil_tensor){HIL_F32, call.in[0].shape, r->din};
    call.din_add[0] = add;
    CHECK_OK(hil_op_backward(&call));
    hil_pool_destroy(call.pool);
}

static void check_values(void)
{
    static routed r, other; /* rows 5, 10, ... have no target */
    const float scale = 0.37f;
    for (int i = 0; i < NUMBERS; ++i) r.logits[i] = (float)(4 * op_random());
    for (int i = 0; i < EXPERTS; ++i) r.logits[i] += 300; /* exponentials that no float holds */
    for (int i = 0; i < ROWS; ++i) r.target[i] = i % 5 - 1;
    r.target[0] = 7;
    find_expected(&r);
    run(&r, scale, false, 2);
    CHECK_NEAR((double)r.out[1], r.expected, 1e-5 * r.expected);
    CHECK_NEAR((double)r.out[0], COEFFICIENT * r.expected, 1e-5 * r.expected);
    for (int i = 0; i < NUMBERS; i += i < EXPERTS ? 1 : 7) {
        double loss[2], at[2]; /* of large logits floats are far apart */
        for (int up = 0; up < 2; ++up) {
            float held = r.logits[i];
            r.logits[i] += up ? 1e-2f : -1e-2f;
            find_expected(&r);
            loss[up] = r.expected;
            at[up] = (double)r.logits[i];
            r.logits[i] = held;
        }
        double slope = COEFFICIENT * (double)scale * (loss[1] - loss[0]) / (at[1] - at[0]);
        CHECK_NEAR((double)r.din[i], slope, 1e-4 * fabs(slope) + 1e-6);
        CHECK(r.target[i / EXPERTS] >= 0 || r.din[i] == 0);
    }
    other = r;
    run(&other, scale, true, 1);
    CHECK(memcmp(other.out, r.out, sizeof r.out) == 0);
    for (int i = 0; i < NUMBERS; ++i) CHECK_NEAR((double)other.din[i], 2 * (double)r.din[i], 1e-12);
}

static void check_dtypes(void)
{
    int32_t target[ROWS] = {0};
    const hil_router_z_attr attr = {COEFFICIENT, LAYERS};
    hil_op_call call = {
        .op = &hil_op_router_z,
        .attr = &attr,
        .ins = 2,
        .in = {{HIL_BF16, {2, {ROWS, EXPERTS}}, NULL}, {HIL_I32, {2, {1, ROWS}}, target}}};
    CHECK_OK(hil_op_infer(&call));
    call.in[1].shape.dim[1] = ROWS - 1;
    CHECK_FAILS(hil_op_infer(&call), HIL_ERR_USAGE, "are not those of 70 tokens");
    call.in[1].dtype = HIL_F32;
    call.in[1].shape.dim[1] = ROWS;
    CHECK_FAILS(hil_op_infer(&call), HIL_ERR_USAGE, "are not those of 70 tokens");
}

int main(void)
{
    check_values();
    check_dtypes();
    return 0;
}
