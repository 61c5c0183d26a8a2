/* A model on the public headers alone brings an operation of its own, sin(x) * y, with its cost:
   its gradients are those of the same model with operations of the library, and a run in small
   budgets, with states on disk, gives the bits of one in memory. */
#include <hilbert/nn.h>
#include <hilbert/trainer.h>

#include <math.h>

#include "check.h"

enum { VOCAB = 96, HIDDEN = 64, SEQ = 16, BATCH = 4, LAYERS = 4, STEPS = 12 };

/* y = x0 * x1, or sin(x0) * x1. */
typedef struct kind {
    bool sine;
    int calls;
} kind;

static void forward(void *context, const hil_custom_tensor *x, const hil_custom_tensor *y)
{
    kind *k = context;
    ++k->calls;
    for (int64_t i = 0; i < y->count; ++i)
        y->data[i] = (k->sine ? sinf(x[0].data[i]) : x[0].data[i]) * x[1].data[i];
}

static void backward(void *context, const hil_custom_tensor *x, const hil_custom_tensor *dy,
                     const hil_custom_tensor *dx)
{
    const kind *k = context;
    for (int64_t i = 0; i < dy->count; ++i) {
        float a = x[0].data[i], b = x[1].data[i], d = dy->data[i];
        if (dx[0].data) dx[0].data[i] = d * b * (k->sine ? cosf(a) : 1);
        if (dx[1].data) dx[1].data[i] = d * (k->sine ? sinf(a) : a);
    }
}

typedef struct net {
    hil_param *table, *norm[LAYERS], *one[LAYERS], *two[LAYERS], *down[LAYERS], *head;
    kind *kind; /* NULL: the library's product */
} net;

typedef struct layer {
    const net *net;
    int number;
} layer;

static hil_status embed(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    hil_value *x;
    (void)in;
    hil_status status = hil_embedding(t, hil_batch_tokens(t), ((const net *)state)->table, &x);
    return status == HIL_OK ? hil_values_set(out, "x", x) : status;
}

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    const net *n = l->net;
    hil_value *x, *h, *part[2], *y;
    hil_custom_options own;
    hil_custom_defaults(&own);
    own.name = "gate of sines";
    own.context = n->kind;
    own.forward = forward;
    own.backward = backward;
    own.passes = 4;
    hil_status status = hil_values_get(in, "x", &x);
    if (status == HIL_OK) status = hil_rmsnorm(t, x, n->norm[l->number], 1e-5, &h);
    if (status == HIL_OK) status = hil_linear(t, h, n->one[l->number], NULL, &part[0]);
    if (status == HIL_OK) status = hil_linear(t, h, n->two[l->number], NULL, &part[1]);
    if (status == HIL_OK)
        status = n->kind ? hil_custom(t, &own, 2, part, &y) : hil_multiply(t, part[0], part[1], &y);
    if (status == HIL_OK) status = hil_linear_add(t, y, n->down[l->number], NULL, x, &x);
    return status == HIL_OK ? hil_values_set(out, "x", x) : status;
}

static hil_status finish(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    hil_value *x;
    (void)out;
    hil_status status = hil_values_get(in, "x", &x);
    return status == HIL_OK ? hil_head_loss(t, x, ((const net *)state)->head) : status;
}

static void build(hil_model *m, kind *own)
{
    net *n;
    layer *l;
    char name[32];
    const hil_param_form table = {HIL_MATRIX, VOCAB, HIDDEN, 0.3};
    const hil_param_form square = {HIL_MATRIX, HIDDEN, HIDDEN, 0.2},
                         scale = {HIL_SCALE, 1, HIDDEN, 0};
    CHECK_OK(hil_model_alloc(m, sizeof *n, (void **)&n));
    n->kind = own;
    CHECK_OK(hil_model_param(m, "table", &table, &n->table));
    CHECK_OK(hil_model_segment(m, "embedding", embed, n));
    for (int i = 0; i < LAYERS; ++i) {
        const struct {
            const char *name;
            const hil_param_form *form;
            hil_param **out;
        } row[] = {{"norm", &scale, &n->norm[i]},
                   {"one", &square, &n->one[i]},
                   {"two", &square, &n->two[i]},
                   {"down", &square, &n->down[i]}};
        for (size_t k = 0; k < sizeof row / sizeof *row; ++k) {
            snprintf(name, sizeof name, "block.%d.%s", i, row[k].name);
            CHECK_OK(hil_model_param(m, name, row[k].form, row[k].out));
        }
        CHECK_OK(hil_model_alloc(m, sizeof *l, (void **)&l));
        *l = (layer){n, i};
        snprintf(name, sizeof name, "block %d", i);
        CHECK_OK(hil_model_segment(m, name, block, l));
    }
    CHECK_OK(hil_model_param(m, "head", &table, &n->head));
    CHECK_OK(hil_model_segment(m, "head", finish, n));
}

/* The losses of a run. */
static void train(kind *own, const char *dtype, size_t device, size_t host,
                  const hil_disk_budget *disk, double loss[STEPS])
{
    static int32_t tokens[BATCH * SEQ];
    hil_model *model;
    hil_trainer *trainer;
    hil_trainer_options options;
    hil_trainer_defaults(&options);
    options.dtype = dtype;
    options.threads = 2;
    options.sequences = BATCH;
    options.micro_batch = BATCH / 2;
    options.length = SEQ;
    options.memory.device = device;
    options.memory.host = host;
    options.memory.disks = disk;
    options.memory.disk_count = disk ? 1 : 0;
    CHECK_OK(hil_model_create(&model));
    build(model, own);
    CHECK_OK(hil_trainer_create(&trainer, model, &options));
    hil_batch batch = {.sequences = BATCH, .length = SEQ, .token = tokens};
    for (int s = 0; s < STEPS; ++s) {
        hil_step_result result;
        for (int i = 0; i < BATCH * SEQ; ++i) tokens[i] = (i * i + 5 * s) % VOCAB;
        CHECK_OK(hil_trainer_step(trainer, &batch, BATCH / 2, 3e-3, &result));
        loss[s] = result.loss;
    }
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
}

int main(void)
{
    char folder[] = "/tmp/hil-operation-XXXXXX";
    double own[STEPS], theirs[STEPS], wide[STEPS], tight[STEPS];
    kind product = {false, 0}, sine = {true, 0};
    CHECK(mkdtemp(folder) != NULL);
    train(&product, "fp32", 0, 0, NULL, own);
    CHECK(product.calls > 0);
    train(NULL, "fp32", 0, 0, NULL, theirs);
    for (int s = 0; s < STEPS; ++s) CHECK_NEAR(own[s], theirs[s], 1e-5);
    const hil_disk_budget disk = {folder, 64 << 20};
    for (int k = 0; k < 2; ++k) {
        const char *dtype = k ? "bf16" : "fp32";
        train(&sine, dtype, 0, 0, NULL, wide);
        train(&sine, dtype, 400 << 10, 320 << 10, &disk, tight);
        for (int s = 0; s < STEPS; ++s) CHECK_NEAR(wide[s], tight[s], 0);
        printf("%s: loss %.4f -> %.4f, the same on disk\n", dtype, wide[0], wide[STEPS - 1]);
        CHECK(wide[STEPS - 1] < wide[0]);
    }
    return 0;
}
