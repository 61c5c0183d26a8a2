/* The loss of pairs of answers, its metrics, every gradient of the adapter and twenty AdamW steps
   agree with TRL; evaluation gives the same numbers. */
#include "adapter_golden.h"

/* The order of `metrics` in the golden files. */
enum { LOSS, CHOSEN, REJECTED, MARGIN, ACCURACY, LOGP_CHOSEN, LOGP_REJECTED, METRICS };

typedef struct preference_run {
    adapter_run adapter;
    int32_t *array[4];
    hil_batch batch;
} preference_run;

static preference_run start(const char *name, const hil_trainer_options *options)
{
    static const char *const arrays[] = {"token", "target", "position", "first"};
    preference_run r = {.adapter = adapter_start(name, options)};
    char path[4096];
    int64_t count;
    snprintf(path, sizeof path, "%s/golden/preferences/%s.safetensors", HIL_TESTS, name);
    hil_safetensors_close(r.adapter.base.golden);
    CHECK_OK(hil_safetensors_open(&r.adapter.base.golden, path));
    for (int i = 0; i < 4; ++i) r.array[i] = golden_ints(r.adapter.base.golden, arrays[i], &count);
    CHECK_INT(count, 2 * GOLDEN_SEQ);
    r.batch = (hil_batch){2, GOLDEN_SEQ, r.array[0], r.array[1], r.array[2], r.array[3]};
    return r;
}

static void stop(preference_run *r)
{
    adapter_stop(&r->adapter);
    for (int i = 0; i < 4; ++i) hil_free(r->array[i]);
}

static double metrics_error(const preference_run *r, const hil_step_result *result)
{
    int64_t count;
    double worst = 0;
    float *expected = golden_floats(r->adapter.base.golden, "metrics", &count);
    const hil_preferences *p = &result->preferences;
    const double got[METRICS] = {[LOSS] = result->loss,
                                 [CHOSEN] = p->reward_chosen,
                                 [REJECTED] = p->reward_rejected,
                                 [MARGIN] = p->reward_chosen - p->reward_rejected,
                                 [ACCURACY] = p->accuracy,
                                 [LOGP_CHOSEN] = p->logp_chosen,
                                 [LOGP_REJECTED] = p->logp_rejected};
    CHECK_INT(count, METRICS);
    CHECK_INT(p->pairs, 3);
    for (int k = 0; k < METRICS; ++k)
        worst = fmax(worst, fabs(got[k] - (double)expected[k]) / fmax(1, fabs(got[k])));
    hil_free(expected);
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
    static const char *const adapters[] = {"gpt2_lora", "llama_lora", "qwen2_rslora", "qwen3_lora"};
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 2;
    options.dpo_beta = 0.1;
    for (size_t i = 0; i < sizeof adapters / sizeof *adapters; ++i) {
        preference_run r = start(adapters[i], &options);
        hil_step_result result;
        CHECK_OK(hil_trainer_loss(r.adapter.base.trainer, &r.batch, &result));
        double evaluated = metrics_error(&r, &result);
        double gradients = adapter_gradients(&r.adapter, &r.batch, &result);
        double trained = metrics_error(&r, &result);
        stop(&r);
        r = start(adapters[i], &options);
        double losses = losses_error(&r);
        stop(&r);
        printf("%s: metrics %.2g and %.2g, gradients %.2g, losses %.2g\n", adapters[i], evaluated,
               trained, gradients, losses);
        CHECK(evaluated <= 1e-4);
        CHECK(trained <= 1e-4);
        CHECK(gradients <= 1e-4);
        CHECK(losses <= 1e-4);
    }
    return 0;
}
