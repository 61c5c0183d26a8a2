/* The same bits whatever the order of micro-batches and segments and what backward finds; and a
   rehearsal takes as much memory as the real run. */
#include "golden.h"
#include "model/build.h"
#include "train/trainer.h"

enum { SEQ = 24, BATCH = 5, MICRO = 2, STEPS = 2 }; /* micro-batches of 2, 2 and 1 */

typedef struct variant {
    int64_t group;
    int64_t keep[3]; /* of segments 0, 1, 2, 0, ... */
} variant;

static const variant variants[] = {
    {1, {9, 9, 9}}, {1, {0, 0, 0}}, {1, {1, 0, 1}}, {2, {1, 2, 0}}, {0, {9, 9, 9}},
    {0, {0, 0, 0}}, {0, {1, 1, 1}}, {0, {3, 0, 2}}, {3, {2, 1, 3}},
};

typedef struct numbers {
    float *all; /* masters and first moments */
    int64_t count;
    double loss[STEPS];
    uint64_t peak;
} numbers;

static hil_trainer *start(const char *name, const char *dtype, hil_model **model)
{
    hil_config config;
    char *folder = golden_path(name, NULL);
    CHECK_OK(hil_config_open(&config, folder));
    hil_free(folder);
    config.layers = 3;
    config.dropout_residual = config.dropout_attention = config.arch == HIL_GPT2 ? 0.1 : 0;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = dtype;
    options.threads = 2;
    options.seed = 5;
    hil_trainer *trainer;
    CHECK_OK(hil_model_build(model, &config));
    CHECK_OK(hil_trainer_create(&trainer, *model, &options));
    return trainer;
}

static void set_engine(hil_trainer *t, hil_pool *pool, const variant *v)
{
    hil_segment_place place[16] = {{0}};
    CHECK(t->model->count <= 16);
    for (size_t s = 0; s < t->model->count; ++s) place[s].keep = v->keep[s % 3];
    hil_engine_options options = {.pool = pool,
                                  .compute = t->dtype,
                                  .group = v->group,
                                  .segment = place,
                                  .tiers = &t->tiers,
                                  .work = 16 << 20};
    hil_engine_destroy(t->engine);
    CHECK_OK(hil_engine_create(&t->engine, t->model, &options));
}

static void read_all(hil_store *store, numbers *out)
{
    for (size_t i = 0; i < hil_store_count(store); ++i)
        out->count += 2 * hil_param_elements(hil_store_at(store, i));
    CHECK_OK(HIL_ALLOC(out->count, &out->all));
    float *at = out->all;
    for (size_t i = 0; i < hil_store_count(store); ++i) {
        hil_param *p = hil_store_at(store, i);
        int64_t n = hil_param_elements(p);
        CHECK_OK(hil_store_read(store, p, HIL_MASTER, 0, n, at));
        CHECK_OK(hil_store_read(store, p, HIL_MOMENT1, 0, n, at + n));
        at += 2 * n;
    }
}

static numbers train(const char *name, const char *dtype, const variant *v)
{
    hil_model *model;
    hil_trainer *t = start(name, dtype, &model);
    numbers out = {0};
    set_engine(t, t->pool, v);
    int32_t tokens[BATCH * SEQ];
    for (int i = 0; i < BATCH * SEQ; ++i) tokens[i] = (i * i * 7 + i / 3) % 250;
    hil_batch batch = {BATCH, SEQ, tokens, NULL, NULL, NULL};
    for (int s = 0; s < STEPS; ++s) {
        hil_step_result result;
        CHECK_OK(hil_trainer_step(t, &batch, MICRO, 1e-2, &result));
        out.loss[s] = result.loss;
    }
    read_all(model->store, &out);
    out.peak = hil_engine_peak(t->engine);
    hil_trainer_destroy(t);
    hil_model_destroy(model);
    return out;
}

/* The peak of a step without data. */
static uint64_t rehearse(const char *name, const char *dtype, const variant *v)
{
    hil_model *model;
    hil_trainer *t = start(name, dtype, &model);
    hil_pool *dry;
    CHECK_OK(hil_pool_create_dry(&dry));
    set_engine(t, dry, v);
    const hil_micro micro[3] = {{.sequences = 2, .length = SEQ},
                                {.sequences = 2, .length = SEQ},
                                {.sequences = 1, .length = SEQ}};
    double loss;
    for (int s = 0; s < STEPS; ++s) {
        CHECK_OK(hil_engine_train(t->engine, &(hil_step){micro, 3, 1, s, 1}, &loss));
        CHECK(loss == 0);
        hil_store_step_end(model->store);
    }
    uint64_t peak = hil_engine_peak(t->engine);
    CHECK_OK(hil_engine_loss(t->engine, micro, &loss));
    hil_trainer_destroy(t);
    hil_pool_destroy(dry);
    hil_model_destroy(model);
    return peak;
}

static void compare(const char *name, const char *dtype)
{
    numbers first = {0};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) {
        numbers now = train(name, dtype, &variants[i]);
        CHECK_INT(rehearse(name, dtype, &variants[i]), now.peak);
        if (i == 0) {
            first = now;
            continue;
        }
        CHECK(memcmp(first.loss, now.loss, sizeof now.loss) == 0);
        CHECK(memcmp(first.all, now.all, (size_t)now.count * sizeof(float)) == 0);
        hil_free(now.all);
    }
    hil_free(first.all);
}

/* Less is kept, less is needed. */
static void compare_peaks(void)
{
    uint64_t all = rehearse("llama", "fp32", &variants[4]);
    uint64_t one = rehearse("llama", "fp32", &variants[6]);
    uint64_t none = rehearse("llama", "fp32", &variants[5]);
    CHECK(none < one && one < all);
}

int main(void)
{
    compare("gpt2", "fp32");
    compare("gpt2", "bf16");
    compare("llama", "fp32");
    compare("llama", "bf16");
    compare_peaks();
    return 0;
}
