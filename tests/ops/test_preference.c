/* test_preference.c - the loss of pairs of answers: its numbers, its gradient by differences, and
   which documents are pairs. */
#include "ops/op_check.h"

enum { SEQUENCES = 2, LENGTH = 9, COUNT = SEQUENCES * LENGTH };
static const double beta = 0.3, scale = 0.37;

/* Two pairs, the second without targets, and padding; then a pair that fills its sequence. */
static const int32_t first[COUNT] = {0, 0, 0, 3, 3, 5, 6, 6, 8, 0, 0, 0, 0, 4, 4, 4, 4, 4};
static const int32_t target[COUNT] = {1,  2, -1, 3,  -1, -1, -1, -1, -1,
                                      -1, 1, 0,  -1, -1, 2,  2,  5,  -1};

typedef struct run {
    float loss[COUNT], reference[COUNT], out[HIL_PREFERENCES * COUNT], saved[COUNT], din[COUNT];
} run;

static void apply(run *r, bool add)
{
    hil_preference_attr attr = {beta};
    hil_shape shape = {2, {SEQUENCES, LENGTH}};
    hil_op_call call = {.op = &hil_op_preference,
                        .attr = &attr,
                        .compute = HIL_BF16,
                        .differentiate = true,
                        .loss_scale = (float)scale,
                        .ins = 4,
                        .in = {{HIL_F32, shape, r->loss},
                               {HIL_F32, shape, r->reference},
                               {HIL_I32, shape, (void *)(uintptr_t)first},
                               {HIL_I32, shape, (void *)(uintptr_t)target}}};
    CHECK_OK(hil_pool_create(&call.pool, 2));
    CHECK_OK(hil_op_infer(&call));
    CHECK_INT(call.outs, 1);
    CHECK_INT(hil_tensor_bytes(&call.out[0]), sizeof r->out);
    CHECK_INT(hil_tensor_bytes(&call.saved[0]), sizeof r->saved);
    memset(r->out, 0xff, sizeof r->out);
    memset(r->saved, 0xff, sizeof r->saved);
    call.out[0].data = r->out;
    call.saved[0].data = r->saved;
    CHECK_OK(hil_op_forward(&call));
    call.din[0] = (hil_tensor){HIL_F32, shape, r->din};
    call.din_add[0] = add;
    CHECK_OK(hil_op_backward(&call));
    hil_pool_destroy(call.pool);
}

static double total(const run *r, int number)
{
    double sum = 0;
    for (int i = 0; i < COUNT; ++i) sum += (double)r->out[number * COUNT + i];
    return sum;
}

int main(void)
{
    run r = {0};
    for (int i = 0; i < COUNT; ++i) r.loss[i] = (float)(2 + op_random());
    for (int i = 0; i < COUNT; ++i) r.reference[i] = (float)(2 + op_random());
    apply(&r, false);
    double chosen[2] = {-r.loss[0] - r.loss[1], -r.loss[10] - r.loss[11]};
    double rejected[2] = {-r.loss[3], -r.loss[14] - r.loss[15] - r.loss[16]};
    double before[4] = {-r.reference[0] - r.reference[1], -r.reference[10] - r.reference[11],
                        -r.reference[3], -r.reference[14] - r.reference[15] - r.reference[16]};
    double expected[HIL_PREFERENCES] = {0};
    for (int k = 0; k < 2; ++k) {
        double rewards[2] = {beta * (chosen[k] - before[k]), beta * (rejected[k] - before[2 + k])};
        expected[HIL_PREFERENCE_LOSS] += log(1 + exp(rewards[1] - rewards[0]));
        expected[HIL_PREFERENCE_REWARD_CHOSEN] += rewards[0];
        expected[HIL_PREFERENCE_REWARD_REJECTED] += rewards[1];
        expected[HIL_PREFERENCE_ACCURATE] += rewards[0] > rewards[1];
        expected[HIL_PREFERENCE_LOGP_CHOSEN] += chosen[k];
        expected[HIL_PREFERENCE_LOGP_REJECTED] += rejected[k];
    }
    for (int k = 0; k < HIL_PREFERENCES; ++k) CHECK_NEAR(total(&r, k), expected[k], 1e-5);
    for (int i = 0; i < COUNT; ++i) {
        const float step = 0.01f;
        run up = r, down = r;
        up.loss[i] += step;
        down.loss[i] -= step;
        apply(&up, false);
        apply(&down, false);
        double slope = total(&up, HIL_PREFERENCE_LOSS) - total(&down, HIL_PREFERENCE_LOSS);
        CHECK_NEAR((double)r.din[i], scale * slope / (2 * (double)step), 1e-4);
        if (target[i] < 0) CHECK(r.din[i] == 0);
    }
    run twice = r;
    apply(&twice, true);
    for (int i = 0; i < COUNT; ++i) CHECK(twice.din[i] == 2 * r.din[i]);

    /* Margins of thousands stay finite. */
    for (int i = 0; i < COUNT; ++i) r.loss[i] *= 10000;
    apply(&r, false);
    for (int i = 0; i < HIL_PREFERENCES * COUNT; ++i) CHECK(isfinite(r.out[i]));
    for (int i = 0; i < COUNT; ++i) CHECK(fabs((double)r.din[i]) <= scale * beta + 1e-6);
    return 0;
}
