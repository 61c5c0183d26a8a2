/* Losses of pairs of answers, and of single ones, their metrics, every gradient and twenty AdamW
   steps agree with TRL, of adapters and of whole models, whose reference is computed before;
   evaluation gives the same numbers. */
#include "adapter_golden.h"

#include "train/pairs.h"

/* `adapter` or `model`: a folder of golden adapters or models. `factor`: of the model's weights in
   the reference, if that is precomputed. */
typedef struct preference_case {
    const char *name, *adapter, *model;
    hil_preference_loss loss;
    float factor;
} preference_case;

static const preference_case cases[] = {
    {"gpt2_lora", "gpt2_lora", NULL, {HIL_PREFER_DPO, false, 0.1, 0, 0, 0, 0, 0}, 0},
    {"llama_lora", "llama_lora", NULL, {HIL_PREFER_DPO, false, 0.1, 0, 0, 0, 0, 0}, 0},
    {"qwen2_rslora", "qwen2_rslora", NULL, {HIL_PREFER_DPO, false, 0.1, 0, 0, 0, 0, 0}, 0},
    {"qwen3_lora", "qwen3_lora", NULL, {HIL_PREFER_DPO, false, 0.1, 0, 0, 0, 0, 0}, 0},
    {"cdpo", "llama_lora", NULL, {HIL_PREFER_DPO, false, 0.1, 0.2, 0, 0, 0, 0}, 0},
    {"robust", "llama_lora", NULL, {HIL_PREFER_ROBUST, false, 0.1, 0.2, 0, 0, 0, 0}, 0},
    {"ipo", "llama_lora", NULL, {HIL_PREFER_IPO, false, 0.3, 0, 0, 0, 0, 0}, 0},
    {"hinge", "llama_lora", NULL, {HIL_PREFER_HINGE, false, 0.5, 0, 0, 0, 0, 0}, 0},
    {"apo_zero", "llama_lora", NULL, {HIL_PREFER_APO_ZERO, false, 0.1, 0, 0, 0, 0, 0}, 0},
    {"apo_down", "llama_lora", NULL, {HIL_PREFER_APO_DOWN, false, 0.1, 0, 0, 0, 0, 0}, 0},
    {"nll", "llama_lora", NULL, {HIL_PREFER_DPO, false, 0.1, 0, 0, 0.3, 0, 0}, 0},
    {"cpo", NULL, "llama_bias", {HIL_PREFER_CPO, false, 0.1, 0.1, 0, 0.7, 0, 0}, 0},
    {"simpo", NULL, "cohere", {HIL_PREFER_SIMPO, false, 2, 0, 0.8, 0, 0, 0}, 0},
    {"whole_dpo", NULL, "llama_bias", {HIL_PREFER_DPO, true, 0.1, 0, 0, 0, 0, 0}, 1},
    {"whole_ipo", NULL, "gemma", {HIL_PREFER_IPO, true, 0.3, 0, 0, 0, 0, 0}, 0.9f},
    {"whole_kto", NULL, "cohere", {HIL_PREFER_KTO, true, 0.3, 0, 0, 0, 1.3, 0.7}, 1.1f},
    {"ipo", "llama_lora", NULL, {HIL_PREFER_IPO, true, 0.3, 0, 0, 0, 0, 0}, 1},
    {"kto", "llama_lora", NULL, {HIL_PREFER_KTO, true, 0.3, 0, 0, 0, 1.3, 0.7}, 1},
    {"kto", "llama_lora", NULL, {HIL_PREFER_KTO, false, 0.3, 0, 0, 0, 1.3, 0.7}, 0},
    {"kto_kl", "qwen3_lora", NULL, {HIL_PREFER_KTO, false, 0.3, 0, 0, 0, 1, 1}, 0},
    {"orpo", NULL, "phi", {HIL_PREFER_ORPO, false, 0.4, 0, 0, 1, 0, 0}, 0},
};

typedef struct preference_run {
    adapter_run adapter; /* of a whole model only `base` */
    bool whole;
    int32_t *array[4];
    hil_batch batch;
} preference_run;

static double logp[2][2 * GOLDEN_SEQ]; /* of the run in progress, under its reference */

/* Multiplies all weights of the model. */
static void scale_weights(hil_trainer *t, float factor)
{
    for (size_t i = 0; i < hil_store_count(t->model->store); ++i) {
        hil_param *p = hil_store_at(t->model->store, i);
        const char *name = hil_param_spec_of(p)->name;
        int64_t count = hil_param_elements(p);
        float *value;
        CHECK_OK(HIL_ALLOC(count, &value));
        CHECK_OK(hil_trainer_read(t, name, value, count));
        for (int64_t k = 0; k < count; ++k) value[k] *= factor;
        CHECK_OK(hil_trainer_write(t, name, value, count));
        hil_free(value);
    }
}

static void take_reference(preference_run *r, const preference_case *c)
{
    hil_trainer *t = r->adapter.base.trainer;
    hil_step_result result;
    CHECK_FAILS(hil_trainer_loss(t, &r->batch, &result), HIL_ERR_USAGE, "under the reference");
    if (r->whole) scale_weights(t, c->factor);
    CHECK_OK(hil_trainer_reference(t, &r->batch, logp[0],
                                   c->loss.kind == HIL_PREFER_KTO ? logp[1] : NULL));
    if (r->whole) golden_load(&r->adapter.base, c->model);
    r->batch.reference = logp[0];
    r->batch.mismatched_reference = logp[1];
}

static preference_run begin(const preference_case *c)
{
    static const char *const arrays[] = {"token", "target", "position", "first"};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 2;
    options.preference = c->loss;
    preference_run r = {.whole = c->model != NULL};
    if (r.whole)
        r.adapter.base = golden_start(c->model, &options);
    else
        r.adapter = adapter_start(c->adapter, &options);
    char path[4096];
    int64_t count;
    snprintf(path, sizeof path, "%s/golden/preferences/%s.safetensors", HIL_TESTS, c->name);
    hil_safetensors_close(r.adapter.base.golden);
    CHECK_OK(hil_safetensors_open(&r.adapter.base.golden, path));
    for (int i = 0; i < 4; ++i) r.array[i] = golden_ints(r.adapter.base.golden, arrays[i], &count);
    CHECK_INT(count, 2 * GOLDEN_SEQ);
    r.batch = (hil_batch){.sequences = 2,
                          .length = GOLDEN_SEQ,
                          .token = r.array[0],
                          .target = r.array[1],
                          .position = r.array[2],
                          .first = r.array[3]};
    return r;
}

static preference_run start(const preference_case *c)
{
    preference_run r = begin(c);
    if (c->loss.precomputed) take_reference(&r, c);
    return r;
}

static void stop(preference_run *r)
{
    if (r->whole)
        golden_stop(&r->adapter.base);
    else
        adapter_stop(&r->adapter);
    for (int i = 0; i < 4; ++i) hil_free(r->array[i]);
}

/* The loss, and what is measured in the order of hil_preference_values. */
static double metrics_error(const preference_run *r, const hil_step_result *result)
{
    int64_t count;
    float *expected = golden_floats(r->adapter.base.golden, "metrics", &count);
    hil_preference_value each[HIL_PREFERENCE_VALUES];
    int values = hil_preference_values(&result->preferences, each);
    double worst = fabs(result->loss - (double)expected[0]) / fmax(1, fabs(result->loss));
    CHECK(count <= values + 1);
    CHECK_INT(result->preferences.pairs, result->preferences.kind == HIL_PREFER_KTO ? 5 : 3);
    for (int k = 0; k + 1 < count; ++k)
        worst = fmax(worst,
                     fabs(each[k].value - (double)expected[k + 1]) / fmax(1, fabs(each[k].value)));
    hil_free(expected);
    return worst;
}

/* The worst of all parameters of a whole model: a step with learning rate 0 leaves the gradients in
   the first moment. */
static double whole_gradients(preference_run *r, hil_step_result *result)
{
    golden_run *run = &r->adapter.base;
    hil_store *store = run->model->store;
    double worst = 0;
    run->trainer->optimizer.clip = 0;
    CHECK_OK(hil_trainer_step(run->trainer, &r->batch, 1, 0, result));
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        char name[300];
        if (!hil_param_trainable(p)) continue;
        int64_t count = hil_param_elements(p);
        float *got;
        CHECK_OK(HIL_ALLOC(count, &got));
        CHECK_OK(hil_store_read(store, p, HIL_MOMENT1, 0, count, got));
        for (int64_t k = 0; k < count; ++k) got[k] /= 1.0f - 0.9f;
        snprintf(name, sizeof name, "grad.%s", hil_param_spec_of(p)->name);
        worst = fmax(worst, golden_compare(run->golden, name, got, count));
        hil_free(got);
    }
    return worst;
}

static double losses_error(preference_run *r)
{
    int64_t count;
    float *expected = golden_floats(r->adapter.base.golden, "loss", &count);
    double worst = 0;
    CHECK_INT(count, GOLDEN_STEPS);
    for (int s = 0; s < GOLDEN_STEPS; ++s) {
        hil_step_result result;
        CHECK_OK(hil_trainer_step(r->adapter.base.trainer, &r->batch, 2, 1e-3, &result));
        worst = fmax(worst, fabs(result.loss - (double)expected[s]));
    }
    hil_free(expected);
    return worst;
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        preference_run r = start(&cases[i]);
        hil_step_result result;
        CHECK_OK(hil_trainer_loss(r.adapter.base.trainer, &r.batch, &result));
        double evaluated = metrics_error(&r, &result);
        double gradients = r.whole ? whole_gradients(&r, &result)
                                   : adapter_gradients(&r.adapter, &r.batch, &result);
        double trained = metrics_error(&r, &result);
        stop(&r);
        r = start(&cases[i]);
        double losses = losses_error(&r);
        stop(&r);
        printf("%s: metrics %.2g and %.2g, gradients %.2g, losses %.2g\n", cases[i].name, evaluated,
               trained, gradients, losses);
        CHECK(evaluated <= 1e-5);
        CHECK(trained <= 1e-5);
        CHECK(gradients <= 2e-5);
        CHECK(losses <= 1e-5);
    }
    return 0;
}
