/* test_preference.c - losses of pairs of answers: their gradients by differences, and which
   documents are pairs. */
#include "ops/op_check.h"

enum { SEQUENCES = 2, LENGTH = 9, COUNT = SEQUENCES * LENGTH };
static const double scale = 0.37, token_weight = 0.8;

/* Two pairs, the second without targets, and padding; then a pair that fills its sequence. */
static const int32_t first[COUNT] = {0, 0, 0, 3, 3, 5, 6, 6, 8, 0, 0, 0, 0, 4, 4, 4, 4, 4};
static const int32_t target[COUNT] = {1,  2, -1, 3,  -1, -1, -1, -1, -1,
                                      -4, 1, 0,  -1, -1, 2,  2,  5,  -1};

typedef struct run {
    hil_preference_loss of;
    float loss[COUNT], reference[COUNT], out[HIL_PREFERENCES * COUNT], gradient[COUNT], din[COUNT];
} run;

static void apply(run *r, bool add)
{
    hil_preference_attr attr = {r->of, token_weight, 0.4};
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
    CHECK_INT(call.outs, 2);
    CHECK_INT(hil_tensor_bytes(&call.out[0]), sizeof r->out);
    CHECK_INT(hil_tensor_bytes(&call.out[1]), sizeof r->gradient);
    memset(r->out, 0xff, sizeof r->out);
    memset(r->gradient, 0xff, sizeof r->gradient);
    call.out[0].data = r->out;
    call.out[1].data = r->gradient;
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

static double minimized(const run *r)
{
    return total(r, HIL_PREFERENCE_LOSS) + token_weight * total(r, HIL_PREFERENCE_NLL);
}

static run start(hil_preference_loss of)
{
    run r = {.of = of};
    for (int i = 0; i < COUNT; ++i) r.loss[i] = (float)(2 + op_random());
    for (int i = 0; i < COUNT; ++i) r.reference[i] = (float)(2 + op_random());
    return r;
}

/* DPO's numbers, by its formula. */
static void check_numbers(void)
{
    const double beta = 0.3;
    run r = start((hil_preference_loss){.kind = HIL_PREFER_DPO, .beta = beta});
    apply(&r, false);
    double chosen[2] = {-r.loss[0] - r.loss[1], -r.loss[10] - r.loss[11]};
    double rejected[2] = {-r.loss[3], -r.loss[14] - r.loss[15] - r.loss[16]};
    double before[4] = {-r.reference[0] - r.reference[1], -r.reference[10] - r.reference[11],
                        -r.reference[3], -r.reference[14] - r.reference[15] - r.reference[16]};
    double expected[HIL_PREFERENCES] = {
        [HIL_PREFERENCE_PAIRS] = 2, [HIL_PREFERENCE_CHOSEN] = 2, [HIL_PREFERENCE_REJECTED] = 2};
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
}

static void check_gradient(const run *before)
{
    run r = *before;
    bool prompts = r.of.kind == HIL_PREFER_ORPO;
    apply(&r, false);
    for (int i = 0; i < COUNT; ++i) {
        const float step = 0.01f;
        run up = r, down = r;
        up.loss[i] += step;
        down.loss[i] -= step;
        apply(&up, false);
        apply(&down, false);
        double slope = (minimized(&up) - minimized(&down)) / (2 * (double)step);
        CHECK_NEAR((double)r.din[i], scale * slope, 2e-4);
        if (target[i] < 0 && !(prompts && target[i] < -1)) CHECK(r.din[i] == 0);
    }
    run twice = r;
    apply(&twice, true);
    for (int i = 0; i < COUNT; ++i) CHECK(twice.din[i] == 2 * r.din[i]);
}

/* Log probabilities of thousands, and of 0, stay finite. */
static void check_extremes(const run *before)
{
    run r = *before;
    for (int i = 0; i < COUNT; ++i) r.loss[i] *= i % 4 ? 10000 : 0;
    for (int turn = 0; turn < 2; ++turn) {
        apply(&r, false);
        for (int i = 0; i < HIL_PREFERENCES * COUNT; ++i) CHECK(isfinite(r.out[i]));
        for (int i = 0; i < COUNT; ++i) CHECK(isfinite(r.din[i]));
        memset(r.loss, 0, sizeof r.loss);
    }
}

int main(void)
{
    check_numbers();
    for (int kind = HIL_PREFER_DPO; kind < HIL_PREFER_KINDS; ++kind) {
        run r = start((hil_preference_loss){.kind = (hil_preference_kind)kind,
                                            .beta = 0.4,
                                            .label_smoothing = 0.15,
                                            .margin = 0.3,
                                            .nll_weight = 1,
                                            .desirable_weight = 0.7,
                                            .undesirable_weight = 1.2});
        check_gradient(&r);
        check_extremes(&r);
    }
    return 0;
}
