/* Other optimizers, fp16 and frozen parameters in whole runs: stopping and resuming changes no bit,
   8-bit moments learn like fp32 ones, Muon as PyTorch's, frozen parameters keep their values and
   have no state, and resuming with another optimizer or other frozen parameters is refused. */
#include "job.h"
#include "store/state.h"

typedef struct variant {
    const char *name, *model, *dtype, *optimizer, *freeze;
} variant;

static const variant variants[] = {
    {"lion", "llama", "fp32", "lion", NULL},
    {"lion-bf16", "gpt2", "bf16", "lion", "transformer.h.0.*"},
    {"8bit", "qwen3", "bf16", "adamw8bit", NULL},
    {"8bit-fp16", "gpt2", "fp16", "adamw8bit", NULL},
    {"fp16", "mistral", "fp16", "adamw", NULL},
    {"frozen", "qwen2", "bf16", "adamw", "model.embed_tokens.weight"},
    {"frozen-fp16", "llama", "fp16", "lion", "*layers.0.*"},
    {"muon", "llama", "fp32", "muon", NULL},
    {"muon-bf16", "gpt2", "bf16", "muon", "transformer.h.0.*"},
};

static hil_train_options options_of(job_place *place, const variant *v, const char *out)
{
    hil_train_options options = job_options(place, v->model, out);
    options.dtype = v->dtype;
    options.optimizer = v->optimizer;
    options.freeze = v->freeze ? &v->freeze : NULL;
    options.freeze_count = v->freeze != NULL;
    options.micro_batch = 2;
    options.shuffle = true;
    options.steps = 9;
    return options;
}

static void check_split(job_place *place, const variant *v)
{
    char whole[JOB_PATH], parts[JOB_PATH], name[64];
    snprintf(name, sizeof name, "whole-%s", v->name);
    hil_train_options options = options_of(place, v, job_path(place, whole, name));
    job_train(&options);
    options.out = job_path(place, parts, v->name);
    options.steps = 4;
    job_train(&options);
    options.resume = true;
    options.steps = 9;
    options.threads = 2;
    job_train(&options);
    if (!job_same(whole, parts)) check_die(v->name, __LINE__, "differs from the run in one go");
}

static void check_refused(job_place *place)
{
    char out[JOB_PATH];
    const variant *v = &variants[5];
    hil_train_options options = options_of(place, v, job_path(place, out, v->name));
    hil_train_result result;
    options.resume = true;
    options.steps = 10;
    options.optimizer = "lion";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "started with --optimizer \"adamw\", not \"lion\"");
    options.optimizer = "adamw";
    options.freeze_count = 0;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "started with --freeze [\"model.embed_tokens.weight\"], not []");
    options = options_of(place, v, job_path(place, out, "new"));
    options.optimizer = "sgd";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "unknown optimizer \"sgd\"");
    options.optimizer = "adamw";
    const char *pattern = "model.embed_token.weight";
    options.freeze = &pattern;
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE,
                "--freeze model.embed_token.weight matches no parameter; did you mean "
                "model.embed_tokens.weight?");
    pattern = "zzz*";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "hilbert inspect");
    pattern = "*";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "no parameter to train");
}

/* A run's loss at the end of 200 steps over the same few windows. */
static double loss_after(job_place *place, const char *optimizer)
{
    char out[JOB_PATH];
    double loss[256];
    hil_train_options options = job_options(place, "llama", job_path(place, out, optimizer));
    options.optimizer = optimizer;
    options.steps = 200;
    job_train(&options);
    int count = job_metrics(out, "loss", loss, 256);
    double mean = 0;
    for (int i = count - 20; i < count; ++i) mean += loss[i] / 20;
    CHECK(mean < 0.8 * loss[0]);
    return mean;
}

static void check_eight_bits(job_place *place)
{
    double adamw = loss_after(place, "adamw"), eight = loss_after(place, "adamw8bit");
    printf("AdamW %.4f, with 8 bits %.4f\n", adamw, eight);
    CHECK_NEAR(eight, adamw, 0.03 * adamw);
}

/* The losses of torch.optim.Muon, from tools/golden_muon.py. */
static void check_muon(job_place *place)
{
    static const char *const models[] = {"llama", "gpt2"};
    json_error_t error;
    json_t *golden = json_load_file(HIL_TESTS "/golden/muon.json", 0, &error);
    CHECK(golden != NULL);
    for (int i = 0; i < 2; ++i) {
        char out[JOB_PATH], name[64];
        double ours[GOLDEN_STEPS], worst = 0;
        snprintf(name, sizeof name, "golden-muon-%s", models[i]);
        hil_train_options options = job_options(place, models[i], job_path(place, out, name));
        options.optimizer = "muon";
        options.tile_size = i ? 2000 : options.tile_size;
        job_train(&options);
        CHECK_INT(job_metrics(out, "loss", ours, GOLDEN_STEPS), GOLDEN_STEPS);
        for (int s = 0; s < GOLDEN_STEPS; ++s) {
            double loss =
                json_real_value(json_array_get(json_object_get(golden, models[i]), (size_t)s));
            worst = fmax(worst, fabs(ours[s] - loss) / loss);
        }
        printf("%s with muon: losses within %.1e of PyTorch's\n", models[i], worst);
        CHECK(worst < 1e-3);
    }
    json_decref(golden);
}

static void check_muon_refused(job_place *place)
{
    char out[JOB_PATH];
    hil_train_result result;
    hil_train_options options = job_options(place, "llama", job_path(place, out, "refused"));
    options.optimizer = "muon";
    options.dtype = "fp16";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "use --dtype bf16");
    options.dtype = "bf16";
    options.adapter.source = "lora";
    CHECK_FAILS(hil_train(&options, NULL, &result), HIL_ERR_USAGE, "no matrix of the blocks");
}

/* One step with some parameters frozen, against one with all of them free. */
static golden_run one_step(const char *const *freeze, size_t count, hil_step_result *result)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 1;
    options.clip = 0;
    options.freeze = freeze;
    options.freeze_count = count;
    golden_run run = golden_start("llama", &options);
    int64_t tokens_count;
    int32_t *tokens = golden_ints(run.golden, "tokens", &tokens_count);
    hil_batch batch = golden_batch(tokens, 0);
    CHECK_OK(hil_trainer_step(run.trainer, &batch, 0, 1e-3, result));
    hil_free(tokens);
    return run;
}

static float *state_of(golden_run *run, size_t i, hil_state state)
{
    hil_param *p = hil_store_at(run->model->store, i);
    float *out;
    CHECK_OK(HIL_ALLOC(hil_param_elements(p), &out));
    CHECK_OK(hil_store_read(run->model->store, p, state, 0, hil_param_elements(p), out));
    return out;
}

static void check_frozen(void)
{
    static const char *const freeze[] = {"*layers.0.*", "model.embed*", "*norm*"};
    hil_step_result free_result, result;
    golden_run all = one_step(NULL, 0, &free_result), some = one_step(freeze, 3, &result);
    CHECK(result.loss == free_result.loss);
    CHECK(result.grad_norm < free_result.grad_norm);
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    golden_run start = golden_start("llama", &options);
    int frozen = 0, left = 0;
    for (size_t i = 0; i < hil_store_count(some.model->store); ++i) {
        hil_param *p = hil_store_at(some.model->store, i);
        const char *name = hil_param_spec_of(p)->name;
        size_t bytes = (size_t)hil_param_elements(p) * sizeof(float);
        bool fixed = strstr(name, "layers.0.") || strstr(name, "embed") || strstr(name, "norm");
        CHECK_INT(hil_param_trainable(p), !fixed);
        CHECK_INT(hil_param_has(p, HIL_MOMENT1), !fixed);
        *(fixed ? &frozen : &left) += 1;
        float *now = state_of(&some, i, HIL_MASTER), *before = state_of(&start, i, HIL_MASTER);
        CHECK_INT(memcmp(now, before, bytes) == 0, fixed);
        for (int s = HIL_MASTER; s < HIL_STATES && !fixed; ++s) {
            float *a = state_of(&all, i, (hil_state)s), *b = state_of(&some, i, (hil_state)s);
            CHECK(memcmp(a, b, bytes) == 0);
            hil_free(a);
            hil_free(b);
        }
        hil_free(now);
        hil_free(before);
    }
    CHECK(frozen > 5 && left > 5);
    golden_stop(&all);
    golden_stop(&some);
    golden_stop(&start);
}

int main(void)
{
    job_place place;
    job_begin(&place);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i)
        check_split(&place, &variants[i]);
    check_refused(&place);
    check_eight_bits(&place);
    check_muon(&place);
    check_muon_refused(&place);
    check_frozen();
    job_end(&place);
    return 0;
}
