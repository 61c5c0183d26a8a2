/* fp16: losses near fp32's; a step whose gradients overflow changes nothing but the loss scale,
   which grows back; at scale 1 it is an error. */
#include "../run/job.h"
#include "run/checkpoint_options.h"
#include "store/state.h"

#define MODEL "qwen3"

typedef struct learner {
    golden_run run;
    hil_trainer *trainer;
    int32_t *tokens;
} learner;

static learner begin(const char *dtype)
{
    learner l;
    int64_t count;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = dtype;
    options.threads = 1;
    l.run = golden_start(MODEL, &options);
    l.trainer = l.run.trainer;
    l.tokens = golden_ints(l.run.golden, "tokens", &count);
    return l;
}

static void end(learner *l)
{
    hil_free(l->tokens);
    golden_stop(&l->run);
}

static hil_status step(learner *l, hil_step_result *result)
{
    hil_batch batch = golden_batch(l->tokens, (int)l->trainer->step % GOLDEN_STEPS);
    return hil_trainer_step(l->trainer, &batch, 0, 1e-3, result);
}

static float *state_of(learner *l, size_t i, hil_state state, int64_t *count)
{
    hil_param *p = hil_store_at(l->run.model->store, i);
    float *out;
    *count = hil_param_elements(p);
    CHECK_OK(HIL_ALLOC(*count, &out));
    CHECK_OK(hil_store_read(l->run.model->store, p, state, 0, *count, out));
    return out;
}

/* AdamW's steps hide a factor of the gradients; its moments do not. */
static void check_moments(learner *half, learner *full)
{
    for (size_t i = 0; i < hil_store_count(half->run.model->store); ++i) {
        int64_t count;
        float *a = state_of(half, i, HIL_MOMENT1, &count);
        float *b = state_of(full, i, HIL_MOMENT1, &count);
        CHECK(golden_error(a, b, count) < 0.05);
        hil_free(a);
        hil_free(b);
    }
}

static void check_close(void)
{
    learner half = begin("fp16"), full = begin("fp32");
    hil_step_result a, b;
    for (int s = 0; s < 8; ++s) {
        CHECK_OK(step(&half, &a));
        CHECK_OK(step(&full, &b));
        CHECK_NEAR(a.loss, b.loss, 2e-3 * b.loss);
        CHECK_NEAR(a.grad_norm, b.grad_norm, 2e-2 * b.grad_norm);
        if (s == 0) check_moments(&half, &full);
    }
    CHECK_INT(half.trainer->scaling.scale, HIL_SCALING_START);
    CHECK_INT(half.trainer->scaling.skipped, 0);
    CHECK_INT(full.trainer->scaling.scale, 1);
    end(&half);
    end(&full);
}

/* A power of two cancels exactly as long as nothing leaves fp16's range. */
static void check_scale_cancels(void)
{
    learner one = begin("fp16"), two = begin("fp16");
    hil_step_result a, b;
    two.trainer->scaling.scale *= 2;
    for (int s = 0; s < 3; ++s) {
        CHECK_OK(step(&one, &a));
        CHECK_OK(step(&two, &b));
        CHECK_NEAR(a.loss, b.loss, 1e-5 * a.loss);
        CHECK_NEAR(a.grad_norm, b.grad_norm, 1e-4 * a.grad_norm);
    }
    end(&one);
    end(&two);
}

static void check_overflow(void)
{
    learner l = begin("fp16");
    hil_scaling *s = &l.trainer->scaling;
    hil_step_result result;
    int64_t count;
    s->scale = (int64_t)1 << 30; /* far too large */
    s->window = 3;
    float *before = state_of(&l, 0, HIL_MASTER, &count);
    int64_t skipped = 0;
    for (;; ++skipped) {
        int64_t scale = s->scale;
        CHECK_OK(step(&l, &result));
        if (isfinite(result.grad_norm)) break;
        CHECK(isfinite(result.loss));
        CHECK_INT(s->scale, scale / 2);
        CHECK_INT(s->skipped, skipped + 1);
        float *after = state_of(&l, 0, HIL_MASTER, &count);
        CHECK(memcmp(before, after, (size_t)count * sizeof *after) == 0);
        hil_free(after);
    }
    CHECK(skipped >= 1 && skipped < 30);
    CHECK_INT(l.trainer->step, skipped + 1);
    float *after = state_of(&l, 0, HIL_MASTER, &count);
    CHECK(memcmp(before, after, (size_t)count * sizeof *after) != 0);
    /* The first update is Adam's first, whatever was skipped: lr * sign(g), and the decay. */
    float most = 0;
    for (int64_t i = 0; i < count; ++i) most = fmaxf(most, fabsf(after[i] - 0.9999f * before[i]));
    CHECK_NEAR((double)most, 1e-3, 1e-5);
    int64_t scale = s->scale;
    CHECK_INT(s->good, 1);
    CHECK_OK(step(&l, &result));
    CHECK_INT(s->scale, scale);
    CHECK_OK(step(&l, &result));
    CHECK_INT(s->scale, 2 * scale);
    CHECK_INT(s->good, 0);
    hil_free(before);
    hil_free(after);
    end(&l);
}

static void check_end(void)
{
    learner l = begin("fp16");
    hil_param *p = hil_store_at(l.run.model->store, 0);
    int64_t count = hil_param_elements(p);
    float *bad;
    CHECK_OK(HIL_ALLOC(count, &bad));
    for (int64_t i = 0; i < count; ++i) bad[i] = NAN;
    CHECK_OK(hil_trainer_write(l.trainer, hil_param_spec_of(p)->name, bad, count));
    hil_step_result result;
    for (int64_t scale = HIL_SCALING_START; scale > 1; scale /= 2) {
        CHECK_INT(l.trainer->scaling.scale, scale);
        CHECK_OK(step(&l, &result));
    }
    CHECK_FAILS(step(&l, &result), HIL_ERR_NUMERIC, "not a finite number");
    CHECK_INT(l.trainer->scaling.skipped, 16);
    hil_free(bad);
    end(&l);
}

/* The metrics record loss scale and skipped updates. */
static void check_metrics(job_place *place)
{
    char out[JOB_PATH];
    double value[16];
    hil_train_options options = job_options(place, MODEL, job_path(place, out, "half"));
    options.dtype = "fp16";
    options.steps = 3;
    job_train(&options);
    CHECK_INT(job_metrics(out, "loss_scale", value, 16), 3);
    for (int i = 0; i < 3; ++i) CHECK(value[i] == HIL_SCALING_START);
    CHECK_INT(job_metrics(out, "skipped", value, 16), 3);
    CHECK(value[2] == 0);
}

/* A checkpoint restores the loss scale. */
static void check_remembered(job_place *place)
{
    hil_train_options options = job_options(place, MODEL, "");
    hil_run_state before = {
        .step = 9, .isa = "", .scaling = {.scale = 1024, .good = 7, .skipped = 3, .window = 2000}};
    hil_run_state after = before;
    json_t *state;
    after.scaling = (hil_scaling){.window = 2000};
    CHECK_OK(hil_run_state_write(&options, &before, &state));
    CHECK_OK(hil_run_state_read(state, &options, &after));
    CHECK(memcmp(&before.scaling, &after.scaling, sizeof before.scaling) == 0);
    CHECK(json_object_set_new(state, "loss_scale", json_integer(0)) == 0);
    CHECK_FAILS(hil_run_state_read(state, &options, &after), HIL_ERR_INPUT, "loss scale");
    json_decref(state);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    check_close();
    check_scale_cancels();
    check_overflow();
    check_end();
    check_metrics(&place);
    check_remembered(&place);
    job_end(&place);
    return 0;
}
