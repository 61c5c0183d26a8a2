/* Generation refuses a model with more attentions, or more recurrences, than its cache has slots.
 */
#include "check.h"
#include "embed.h"
#include "hilbert/trainer.h"

enum { V = 5, C = 8, SLOTS = 16384, BLOCKS = 128 };

typedef struct layer {
    hil_param *kernel;
    int attentions, recurrences;
} layer;

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    hil_value *x, *heads;
    HIL_TRY(hil_values_get(in, "x", &x));
    int64_t shape[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), 1, C};
    HIL_TRY(hil_reshape(t, x, 4, shape, &heads));
    for (int i = 0; i < l->attentions; ++i)
        HIL_TRY(hil_attention(t, heads, heads, heads, NULL, &heads));
    HIL_TRY(hil_reshape(t, heads, 3, (int64_t[]){shape[0], shape[1], C}, &x));
    for (int i = 0; i < l->recurrences; ++i) HIL_TRY(hil_causal_conv(t, x, l->kernel, &x));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *table, const hil_values *in, hil_values *none)
{
    hil_value *x;
    (void)none;
    hil_status status = hil_values_get(in, "x", &x);
    return status == HIL_OK ? hil_head_loss(t, x, table) : status;
}

/* Each block has so many; planning runs the passes of generation on shapes. */
static hil_status open_with(int attentions, int recurrences)
{
    static layer layers[BLOCKS];
    hil_param *table;
    hil_model *model;
    hil_trainer *trainer = NULL;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 1;
    options.training = false;
    options.cache = 1;
    options.length = 1;
    CHECK_OK(hil_model_create(&model));
    CHECK_OK(hil_model_param(model, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &table));
    CHECK_OK(hil_model_segment(model, "embedding", embed, table));
    for (int i = 0; i < BLOCKS; ++i) {
        const hil_param_form kernel = {HIL_KERNEL, C, 2, 0.5};
        layer *l = &layers[i];
        char name[32];
        *l = (layer){.attentions = attentions, .recurrences = recurrences};
        snprintf(name, sizeof name, "kernel.%d", i);
        CHECK_OK(hil_model_param(model, name, &kernel, &l->kernel));
        snprintf(name, sizeof name, "block.%d", i);
        CHECK_OK(hil_model_segment(model, name, block, l));
    }
    CHECK_OK(hil_model_segment(model, "head", head, table));
    hil_status status = hil_trainer_create(&trainer, model, &options);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    return status;
}

int main(void)
{
    const int most = SLOTS / BLOCKS;
    CHECK_FAILS(open_with(most + 1, 0), HIL_ERR_USAGE, "at most 16384 attentions");
    CHECK_FAILS(open_with(1, most + 1), HIL_ERR_USAGE, "at most 16384 recurrences");
    return 0;
}
