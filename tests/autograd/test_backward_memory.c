/* Any allocation of a step may fail, also those of gradients in the middle of backward: the step
   fails with a line, frees what it allocated, and can be repeated. */
#include "base/alloc.h"
#include "check.h"
#include "embed.h"
#include "hilbert/trainer.h"

enum { V = 11, C = 8, SEQ = 6, LAYERS = 150 };

typedef struct net {
    hil_param *table, *inner;
    int layers;
} net;

static hil_status head(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    (void)out;
    hil_value *x, *h;
    HIL_TRY(hil_values_get(in, "x", &x));
    for (int i = 0; i < n->layers; ++i) {
        if (i % 2) {
            HIL_TRY(hil_linear_add(t, x, n->inner, NULL, x, &x));
            continue;
        }
        HIL_TRY(hil_linear(t, x, n->inner, NULL, &h));
        HIL_TRY(hil_add(t, x, h, &x));
    }
    return hil_head_loss(t, x, n->table);
}

static void check(int layers)
{
    net n = {.layers = layers};
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 1;
    CHECK_OK(hil_model_create(&model));
    CHECK_OK(hil_model_param(model, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &n.table));
    CHECK_OK(hil_model_param(model, "inner", &(hil_param_form){HIL_MATRIX, C, C, 0.1}, &n.inner));
    CHECK_OK(hil_model_segment(model, "embedding", embed, n.table));
    CHECK_OK(hil_model_segment(model, "head", head, &n));
    CHECK_OK(hil_trainer_create(&trainer, model, &options));
    int32_t token[SEQ] = {1, 2, 3, 4, 5, 6};
    hil_batch batch = {.sequences = 1, .length = SEQ, .token = token};
    hil_step_result result;
    hil_status status = HIL_ERR_MEMORY;
    int failures = 0;
    /* The engine keeps the buffers it has, so each failed step gets one allocation further. */
    for (; status == HIL_ERR_MEMORY; ++failures) {
        hil_alloc_fail_at(failures % 2 + 1);
        status = hil_trainer_step(trainer, &batch, 1, 1e-3, &result);
        hil_alloc_fail_at(0);
    }
    CHECK_OK(status);
    CHECK(failures > 2);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

int main(void)
{
    for (int layers = 1; layers <= LAYERS; ++layers) check(layers);
    return 0;
}
