/* A model that takes another path in the middle of a run uses a parameter where it never was used
   before: nothing fails, and the numbers are the same in every budget. */
#include "autograd/engine.h"
#include "check.h"
#include "hilbert/nn.h"
#include "hilbert/trainer.h"

enum { V = 50, C = 64, SEQ = 16, BATCH = 4, STEPS = 5 };

typedef struct net {
    hil_param *table, *first, *second, *norm;
    bool other; /* the second block uses what the first one does */
} net;
static net n;

static hil_status embed(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    (void)layer, (void)in;
    hil_value *x;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), n.table, &x));
    return hil_values_set(out, "x", x);
}

static hil_status block(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    hil_value *x, *h;
    HIL_TRY(hil_values_get(in, "x", &x));
    hil_param *p = layer == &n.second && n.other ? n.first : *(hil_param **)layer;
    HIL_TRY(hil_linear(t, x, p, NULL, &h));
    HIL_TRY(hil_gelu(t, h, HIL_GELU_EXACT, &h));
    HIL_TRY(hil_add(t, x, h, &x));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    (void)layer, (void)out;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_rmsnorm(t, x, n.norm, 1e-5, &x));
    return hil_head_loss(t, x, n.table);
}

static void run(const char *where, uint64_t device, uint64_t host, double loss[STEPS])
{
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.threads = 2;
    options.device.name = where;
    options.memory.device = device;
    options.memory.host = host;
    options.sequences = BATCH;
    options.length = SEQ;
    n = (net){0};
    CHECK_OK(hil_model_create(&model));
    CHECK_OK(hil_model_param(model, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &n.table));
    CHECK_OK(hil_model_param(model, "first", &(hil_param_form){HIL_MATRIX, C, C, 0.5}, &n.first));
    CHECK_OK(hil_model_param(model, "second", &(hil_param_form){HIL_MATRIX, C, C, 0.5}, &n.second));
    CHECK_OK(hil_model_param(model, "norm", &(hil_param_form){HIL_SCALE, 1, C, 0}, &n.norm));
    CHECK_OK(hil_model_segment(model, "embedding", embed, NULL));
    CHECK_OK(hil_model_segment(model, "one", block, &n.first));
    CHECK_OK(hil_model_segment(model, "two", block, &n.second));
    CHECK_OK(hil_model_segment(model, "head", head, NULL));
    CHECK_OK(hil_trainer_create(&trainer, model, &options));
    int32_t token[BATCH * SEQ];
    for (int i = 0; i < BATCH * SEQ; ++i) token[i] = (i * 7 + i / 5) % V;
    hil_batch batch = {.sequences = BATCH, .length = SEQ, .token = token};
    for (int s = 0; s < STEPS; ++s) {
        hil_step_result result;
        n.other = s == 2;
        CHECK_OK(hil_trainer_step(trainer, &batch, 1, 1e-2, &result));
        loss[s] = result.loss;
    }
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

int main(void)
{
    static const uint64_t budgets[][2] = {{0, 0}, {64 << 20, 1 << 20}, {100 << 10, 260 << 10}};
    double expected[STEPS], loss[STEPS];
    run("cpu", 0, 0, expected);
    CHECK(expected[STEPS - 1] < expected[0]);
    for (size_t b = 0; b < sizeof budgets / sizeof *budgets; ++b)
        for (int device = 0; device < 2; ++device) {
            run(device ? "threads" : "cpu", budgets[b][0], budgets[b][1], loss);
            for (int s = 0; s < STEPS; ++s) CHECK(loss[s] == expected[s]);
        }
    return 0;
}
