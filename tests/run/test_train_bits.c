/* Threads, recompute and the order of work change no bit. */
#include "copy.h"
#include "job.h"
#include "store/state.h"

/* A golden model whose config has dropout. */
static void with_dropout(job_place *place, char folder[JOB_PATH])
{
    char to[JOB_PATH];
    json_error_t error;
    CHECK_OK(hil_dir_create(job_path(place, folder, "dropout")));
    CHECK_OK(copy_file(HIL_TESTS "/golden/models/gpt2/model.safetensors",
                       job_path(place, to, "dropout/model.safetensors")));
    json_t *config = json_load_file(HIL_TESTS "/golden/models/gpt2/config.json", 0, &error);
    CHECK(config != NULL);
    static const char *const keys[] = {"resid_pdrop", "embd_pdrop", "attn_pdrop"};
    for (int i = 0; i < 3; ++i)
        CHECK(json_object_set_new(config, keys[i], json_real(0.1 * (i + 1))) == 0);
    CHECK(json_dump_file(config, job_path(place, to, "dropout/config.json"), 0) == 0);
    json_decref(config);
}

typedef struct variant {
    const char *name;
    int threads;
    bool recompute;
} variant;

static void compare(job_place *place, const char *model, const char *folder, const char *dtype)
{
    static const variant variants[] = {{"first", 1, false},
                                       {"again", 1, false},
                                       {"two", 2, false},
                                       {"three", 3, false},
                                       {"recompute", 2, true}};
    char first[JOB_PATH], out[JOB_PATH], name[64];
    for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) {
        snprintf(name, sizeof name, "%s-%s-%s", folder ? "dropout" : model, dtype,
                 variants[i].name);
        job_path(place, i ? out : first, name);
        hil_train_options options = job_options(place, model, i ? out : first);
        if (folder) options.model = folder;
        options.dtype = dtype;
        options.steps = 4;
        options.micro_batch = 2;
        options.shuffle = true;
        options.threads = variants[i].threads;
        options.recompute = variants[i].recompute;
        job_train(&options);
        if (i > 0 && !job_same(first, out)) check_die(name, __LINE__, "differs from the first");
    }
}

/* Every weight after three steps of micro-batches that pass the segments in groups of `group`. */
static float *weights_of(const char *model, const char *dtype, int64_t group, int64_t *count)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = dtype;
    options.threads = 2;
    golden_run run = golden_start(model, &options);
    hil_trainer *t = run.trainer;
    hil_tiers tiers;
    CHECK_OK(hil_tiers_open(&tiers, &(hil_tiers_options){.device_bytes = 64 << 20}));
    hil_engine_options engine = {
        .pool = t->pool, .compute = t->dtype, .group = group, .tiers = &tiers, .work = 64 << 20};
    hil_engine_destroy(t->engine);
    CHECK_OK(hil_engine_create(&t->engine, run.model, &engine));
    int64_t total;
    int32_t *tokens = golden_ints(run.golden, "tokens", &total);
    hil_step_result result;
    for (int s = 0; s < 3; ++s) {
        hil_batch batch = golden_batch(tokens, s);
        CHECK_OK(hil_trainer_step(t, &batch, 1, 1e-3, &result));
    }
    float *all;
    *count = 0;
    for (size_t i = 0; i < hil_store_count(run.model->store); ++i)
        *count += hil_param_elements(hil_store_at(run.model->store, i));
    CHECK_OK(HIL_ALLOC(*count + 1, &all));
    int64_t at = 0;
    for (size_t i = 0; i < hil_store_count(run.model->store); ++i) {
        hil_param *p = hil_store_at(run.model->store, i);
        CHECK_OK(
            hil_store_read(run.model->store, p, HIL_MASTER, 0, hil_param_elements(p), all + at));
        at += hil_param_elements(p);
    }
    all[at] = (float)result.loss;
    hil_free(tokens);
    golden_stop(&run);
    hil_tiers_close(&tiers);
    return all;
}

static void compare_groups(const char *model, const char *dtype)
{
    static const int64_t groups[] = {1, 2, 3, 0};
    float *first = NULL;
    int64_t count;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i) {
        float *weights = weights_of(model, dtype, groups[i], &count);
        if (first) CHECK(memcmp(first, weights, (size_t)(count + 1) * sizeof *first) == 0);
        if (first)
            hil_free(weights);
        else
            first = weights;
    }
    hil_free(first);
}

/* The micro-batch only changes the order of sums. */
static void compare_micro_batches(job_place *place)
{
    double loss[2][GOLDEN_STEPS];
    char out[JOB_PATH];
    for (int i = 0; i < 2; ++i) {
        hil_train_options options =
            job_options(place, "llama", job_path(place, out, i ? "micro-3" : "micro-4"));
        options.micro_batch = 4 - i;
        options.steps = 5;
        job_train(&options);
        CHECK_INT(job_metrics(out, "loss", loss[i], GOLDEN_STEPS), 5);
    }
    CHECK_NEAR(loss[0][0], loss[1][0], 1e-6);
    for (int s = 1; s < 5; ++s) CHECK_NEAR(loss[0][s], loss[1][s], 1e-5);
}

/* Matrices cut into tiles are the same matrices. */
static void compare_tiles(job_place *place, const char *model)
{
    double loss[2][GOLDEN_STEPS];
    char out[JOB_PATH], name[64];
    for (int i = 0; i < 2; ++i) {
        snprintf(name, sizeof name, "tiles-%s-%d", model, i);
        hil_train_options options = job_options(place, model, job_path(place, out, name));
        if (i) options.tile_size = 1000;
        options.steps = 6;
        job_train(&options);
        CHECK_INT(job_metrics(out, "loss", loss[i], GOLDEN_STEPS), 6);
    }
    for (int s = 0; s < 6; ++s) CHECK_NEAR(loss[0][s], loss[1][s], 1e-5);
}

/* The embedding really is in several tiles then. */
static void check_tile_rows(const char *model, const char *embedding)
{
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.tile_size = 1000;
    golden_run run = golden_start(model, &options);
    hil_param *p = hil_store_find(run.model->store, embedding);
    CHECK(p != NULL);
    CHECK(hil_param_tile_rows(p) * 3 < hil_param_spec_of(p)->shape.dim[0]);
    golden_stop(&run);
}

int main(void)
{
    job_place place;
    char dropout[JOB_PATH];
    job_begin(&place);
    with_dropout(&place, dropout);
    compare(&place, "qwen3", NULL, "fp32");
    if (!CHECK_SLOW) compare(&place, "mistral", NULL, "bf16");
    if (!CHECK_SLOW) compare(&place, "gpt2", dropout, "fp32");
    compare(&place, "gpt2", dropout, "bf16");
    if (!CHECK_SLOW) compare_groups("llama3", "fp32");
    compare_groups("gpt2", "bf16");
    compare_micro_batches(&place);
    compare_tiles(&place, "gpt2");
    compare_tiles(&place, "llama3");
    check_tile_rows("gpt2", "transformer.wte.weight");
    check_tile_rows("llama3", "model.embed_tokens.weight");
    job_end(&place);
    return 0;
}
