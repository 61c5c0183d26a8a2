/* A block used twice, a tied table, an earlier segment's value, a value that only passes through
   and one that its own segment reads again in backward: the gradients are those of finite
   differences, and the same bits in every order of execution. What is frozen gets none. */
#include "autograd/engine.h"
#include "base/philox.h"
#include "check.h"
#include "hilbert/trainer.h"
#include "train/trainer.h"

enum { V = 11, C = 8, SEQ = 6, BATCH = 4 };

typedef struct net {
    hil_param *table, *inner, *norm;
} net;

static hil_status embed(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    (void)in;
    hil_value *x;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), n->table, &x));
    HIL_TRY(hil_values_set(out, "copy", x));
    return hil_values_set(out, "x", x);
}

static hil_status block(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    hil_value *x, *h, *copy;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_values_get(in, "copy", &copy));
    for (int twice = 0; twice < 2; ++twice) {
        HIL_TRY(hil_linear(t, x, n->inner, NULL, &h));
        HIL_TRY(hil_values_set(out, "inside", h));
        HIL_TRY(hil_gelu(t, h, HIL_GELU_EXACT, &h));
        HIL_TRY(hil_add(t, x, h, &x));
    }
    HIL_TRY(hil_values_set(out, "copy", copy));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    (void)out;
    hil_value *x, *copy, *start, *inside;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_values_get(in, "copy", &copy));
    HIL_TRY(hil_values_get(in, "inside", &inside));
    HIL_TRY(hil_earlier(t, "embedding", "x", &start));
    HIL_TRY(hil_add(t, x, copy, &x));
    HIL_TRY(hil_add(t, x, inside, &x));
    HIL_TRY(hil_earlier(t, "first", "inside", &inside));
    HIL_TRY(hil_gelu(t, inside, HIL_GELU_EXACT, &inside));
    HIL_TRY(hil_add(t, x, inside, &x));
    HIL_TRY(hil_add(t, x, start, &x));
    HIL_TRY(hil_rmsnorm(t, x, n->norm, 1e-5, &x));
    return hil_head_loss(t, x, n->table);
}

static hil_trainer *start(hil_model **model, bool recompute, const char *frozen)
{
    static net n;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.seed = 3;
    options.clip = 0;
    options.threads = 2;
    options.recompute = recompute;
    CHECK_OK(hil_model_create(model));
    CHECK_OK(hil_model_param(*model, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &n.table));
    CHECK_OK(hil_model_param(*model, "inner", &(hil_param_form){HIL_MATRIX, C, C, 0.5}, &n.inner));
    CHECK_OK(hil_model_param(*model, "norm", &(hil_param_form){HIL_SCALE, 1, C, 0}, &n.norm));
    CHECK_OK(hil_model_segment(*model, "embedding", embed, &n));
    CHECK_OK(hil_model_segment(*model, "first", block, &n));
    CHECK_OK(hil_model_segment(*model, "second", block, &n));
    CHECK_OK(hil_model_segment(*model, "head", head, &n));
    if (frozen) hil_param_freeze(hil_store_find((*model)->store, frozen));
    CHECK_OK(hil_trainer_create(&trainer, *model, &options));
    return trainer;
}

static int32_t tokens[BATCH * SEQ];
static const hil_batch batch = {BATCH, SEQ, tokens, NULL, NULL, NULL};
static const char *const names[] = {"table", "inner", "norm"};
static const int64_t counts[] = {V * C, C *C, C};

static void check_differences(void)
{
    hil_model *model;
    hil_trainer *trainer = start(&model, false, NULL);
    hil_step_result up, down;
    float gradient[V * C], weight[V * C];
    CHECK_OK(hil_trainer_step(trainer, &batch, 2, 0, &up));
    for (int p = 0; p < 3; ++p) {
        hil_param *param = hil_store_find(model->store, names[p]);
        CHECK_OK(hil_store_read(model->store, param, HIL_MOMENT1, 0, counts[p], gradient));
        CHECK_OK(hil_trainer_read(trainer, names[p], weight, counts[p]));
        for (int64_t i = 0; i < counts[p]; i += 7) {
            float kept = weight[i], h = 1e-2f;
            weight[i] = kept + h;
            CHECK_OK(hil_trainer_write(trainer, names[p], weight, counts[p]));
            CHECK_OK(hil_trainer_loss(trainer, &batch, &up));
            weight[i] = kept - h;
            CHECK_OK(hil_trainer_write(trainer, names[p], weight, counts[p]));
            CHECK_OK(hil_trainer_loss(trainer, &batch, &down));
            weight[i] = kept;
            CHECK_OK(hil_trainer_write(trainer, names[p], weight, counts[p]));
            CHECK_NEAR((double)gradient[i] * 10, (up.loss - down.loss) / (2 * (double)h), 2e-3);
        }
    }
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

static void run(bool recompute, int64_t group, float *table)
{
    hil_model *model;
    hil_trainer *trainer = start(&model, recompute, NULL);
    hil_segment_place none[4] = {{0}};
    hil_engine_options options = {.pool = trainer->pool,
                                  .compute = HIL_F32,
                                  .group = group,
                                  .segment = recompute ? none : NULL,
                                  .tiers = &trainer->tiers,
                                  .work = 16 << 20};
    hil_engine_destroy(trainer->engine);
    CHECK_OK(hil_engine_create(&trainer->engine, model, &options));
    for (int step = 0; step < 5; ++step) {
        hil_step_result result;
        CHECK_OK(hil_trainer_step(trainer, &batch, 1, 1e-2, &result));
    }
    CHECK_OK(hil_trainer_read(trainer, "table", table, V * C));
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

/* A frozen parameter keeps its value; the others get the gradients that they always get. */
static void check_frozen(void)
{
    float moment[3][V * C], got[V * C], before[V * C];
    for (int frozen = -1; frozen < 3; ++frozen) {
        hil_model *model;
        hil_trainer *trainer = start(&model, frozen == 1, frozen < 0 ? NULL : names[frozen]);
        hil_step_result result;
        if (frozen >= 0) CHECK_OK(hil_trainer_read(trainer, names[frozen], before, counts[frozen]));
        CHECK_OK(hil_trainer_step(trainer, &batch, 2, 1e-2, &result));
        for (int p = 0; p < 3; ++p) {
            hil_param *param = hil_store_find(model->store, names[p]);
            size_t bytes = (size_t)counts[p] * sizeof *got;
            if (p == frozen) {
                CHECK_OK(hil_trainer_read(trainer, names[p], got, counts[p]));
                CHECK(memcmp(got, before, bytes) == 0);
                continue;
            }
            CHECK_OK(hil_store_read(model->store, param, HIL_MOMENT1, 0, counts[p],
                                    frozen < 0 ? moment[p] : got));
            if (frozen >= 0) CHECK(memcmp(got, moment[p], bytes) == 0);
        }
        hil_trainer_destroy(trainer);
        hil_model_destroy(model);
    }
}

int main(void)
{
    float expected[V * C], got[V * C];
    for (int i = 0; i < BATCH * SEQ; ++i) tokens[i] = (i * i + 3) % V;
    check_differences();
    check_frozen();
    run(false, 1, expected);
    for (int64_t group = 0; group < 4; ++group)
        for (int recompute = 0; recompute < 2; ++recompute) {
            run(recompute, group, got);
            CHECK(memcmp(got, expected, sizeof got) == 0);
        }
    return 0;
}
