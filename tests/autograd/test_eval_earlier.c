/* Evaluating a model whose blocks read a value of an earlier segment takes as much device memory as
   one block needs, however many there are. A model whose path depends
   on its tokens keeps all values. While a model is trained, values that are read much later are
   offloaded as they are in training. A value that is read only on another path than that of shapes
   is refused, whatever its dtype. */
#include "check.h"
#include "embed.h"
#include "hilbert/trainer.h"
#include "train/trainer.h"

enum { V = 11, C = 64, SEQ = 256, MOST = 24, SHORT = 3 };

typedef struct net {
    hil_param *table, *inner[MOST];
    bool asks;     /* for the tokens, and reads another value where the first one is 5 */
    bool mirrors;  /* the last blocks read values of the first ones, the nearest first */
    size_t device; /* trained within so much memory; 0: only evaluated */
} net;

typedef struct layer {
    const net *n;
    int number;
} layer;

static net n;
static layer layers[MOST];

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    const int32_t *ids = l->n->asks ? hil_value_ids(hil_batch_tokens(t)) : NULL;
    bool far = ids && ids[0] == 5 && l->number > 2;
    hil_value *x, *start;
    char from[32];
    snprintf(from, sizeof from, far ? "block.1" : "embedding");
    if (l->n->mirrors && l->number >= MOST / 2)
        snprintf(from, sizeof from, "block.%d", MOST - 1 - l->number);
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_earlier(t, from, "x", &start));
    HIL_TRY(hil_linear_add(t, x, l->n->inner[l->number], NULL, start, &x));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    (void)out, (void)state;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    return hil_head_loss(t, x, n.table);
}

/* The first block gives the places of tokens among experts; the third one reads them, but not while
   only shapes are known, which have two positions or SEQ. */
static hil_status route(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    hil_value *x;
    hil_routing r;
    hil_route_options options;
    hil_route_defaults(&options);
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_route(t, x, NULL, &options, &r));
    if (l->number == 0) HIL_TRY(hil_values_set(out, "places", r.places));
    if (l->number == 2 && hil_value_dim(x, 1) == SHORT) {
        HIL_TRY(hil_earlier(t, "block.0", "places", &r.places));
        HIL_TRY(hil_dispatch(t, x, &r, &x));
        HIL_TRY(hil_reshape(t, x, 3, (int64_t[]){1, -1, C}, &x));
    }
    return hil_values_set(out, "x", x);
}

static void check_places(void)
{
    static const layer of[] = {{&n, 0}, {&n, 1}, {&n, 2}};
    static const int32_t token[SHORT];
    static const hil_batch batch = {.sequences = 1, .length = SHORT, .token = token};
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_step_result result;
    char name[32];
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.training = false;
    options.length = SEQ;
    CHECK_OK(hil_model_create(&model));
    CHECK_OK(hil_model_param(model, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &n.table));
    CHECK_OK(hil_model_segment(model, "embedding", embed, n.table));
    for (int i = 0; i < 3; ++i) {
        snprintf(name, sizeof name, "block.%d", i);
        CHECK_OK(hil_model_segment(model, name, route, (void *)(uintptr_t)&of[i]));
    }
    CHECK_OK(hil_model_segment(model, "head", head, NULL));
    CHECK_OK(hil_trainer_create(&trainer, model, &options));
    CHECK_FAILS(hil_trainer_loss(trainer, &batch, &result), HIL_ERR_USAGE,
                "reads \"places\" of segment block.0, which it did not");
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

/* Memory of the tensors of a pass over `count` blocks, and its loss. */
static size_t evaluate(int count, double *loss)
{
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_step_result result;
    int32_t token[SEQ];
    char name[32];
    for (int i = 0; i < SEQ; ++i) token[i] = (i * 7 + 5) % V;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    options.threads = 1;
    options.training = n.device > 0;
    options.memory.device = n.device;
    options.memory.host = 16 << 20;
    options.sequences = 4;
    options.length = SEQ;
    options.micro_batch = 1;
    CHECK_OK(hil_model_create(&model));
    CHECK_OK(hil_model_param(model, "table", &(hil_param_form){HIL_MATRIX, V, C, 0.5}, &n.table));
    CHECK_OK(hil_model_segment(model, "embedding", embed, n.table));
    for (int i = 0; i < count; ++i) {
        layers[i] = (layer){&n, i};
        snprintf(name, sizeof name, "inner.%d", i);
        CHECK_OK(
            hil_model_param(model, name, &(hil_param_form){HIL_MATRIX, C, C, 0.1}, &n.inner[i]));
        snprintf(name, sizeof name, "block.%d", i);
        CHECK_OK(hil_model_segment(model, name, block, &layers[i]));
    }
    CHECK_OK(hil_model_segment(model, "head", head, NULL));
    CHECK_OK(hil_trainer_create(&trainer, model, &options));
    hil_batch batch = {.sequences = 1, .length = SEQ, .token = token};
    CHECK_OK(hil_trainer_loss(trainer, &batch, &result));
    *loss = result.loss;
    size_t work = hil_engine_work(trainer->engine);
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    return work;
}

/* Training offloads values within the smaller budget, so evaluation must, too. */
static void check_offload(void)
{
    const size_t value = SEQ * C * sizeof(float);
    double whole, part;
    n = (net){.mirrors = true, .device = 4 << 20};
    size_t all = evaluate(MOST, &whole);
    n.device = 1 << 20;
    size_t some = evaluate(MOST, &part);
    CHECK(all >= MOST / 2 * value && some < all / 2);
    CHECK(whole == part);
}

int main(void)
{
    double loss, same, other;
    size_t few = evaluate(3, &loss), many = evaluate(MOST, &loss);
    (void)evaluate(MOST, &same);
    n.asks = true;
    size_t kept = evaluate(MOST, &other), value = SEQ * C * sizeof(float);
    CHECK(many <= few);
    CHECK(kept >= many + (MOST - 5) * value);
    CHECK(loss > 0 && other > 0 && loss != other);
    CHECK(loss == same);
    check_offload();
    check_places();
    return 0;
}
