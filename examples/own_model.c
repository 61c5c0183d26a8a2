/* own_model.c - a model of one's own on the installed API: one block that every token passes twice.

   cc own_model.c $(pkg-config --cflags --libs hilbert) -o own_model && ./own_model

   Nothing here says where a weight is kept, when it is fetched, or what backward keeps. */
#include <hilbert/nn.h>
#include <hilbert/trainer.h>

#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 64, HIDDEN = 48, HEADS = 4, SEQ = 32, BATCH = 8, STEPS = 150 };

#define TRY(expr)                                                                                  \
    do {                                                                                           \
        hil_status status_ = (expr);                                                               \
        if (status_ != HIL_OK) return status_;                                                     \
    } while (0)

typedef struct net {
    hil_param *table, *positions;
    hil_param *norm, *q, *k, *v, *out, *up, *gate, *down;
    hil_param *last_norm;
} net;

static hil_status embed(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    (void)in;
    hil_value *x, *p;
    TRY(hil_embedding(t, hil_batch_tokens(t), n->table, &x));
    TRY(hil_embedding(t, hil_batch_positions(t), n->positions, &p));
    TRY(hil_add(t, x, p, &x));
    return hil_values_set(out, "x", x);
}

/* Attention and feed-forward side by side on the same normalised input. */
static hil_status pass(hil_tape *t, const net *n, hil_value *x, hil_value **y)
{
    hil_value *h, *part[3], *gate, *up;
    hil_param *const weight[3] = {n->q, n->k, n->v};
    int64_t heads[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), HEADS, -1};
    TRY(hil_rmsnorm(t, x, n->norm, 1e-5, &h));
    for (int i = 0; i < 3; ++i) {
        TRY(hil_linear(t, h, weight[i], NULL, &part[i]));
        TRY(hil_reshape(t, part[i], 4, heads, &part[i]));
    }
    TRY(hil_attention(t, part[0], part[1], part[2], NULL, y));
    TRY(hil_reshape(t, *y, 3, (int64_t[]){heads[0], heads[1], HIDDEN}, y));
    TRY(hil_linear_add(t, *y, n->out, NULL, x, y));
    TRY(hil_linear(t, h, n->gate, NULL, &gate));
    TRY(hil_linear(t, h, n->up, NULL, &up));
    TRY(hil_swiglu(t, gate, up, &up));
    return hil_linear_add(t, up, n->down, NULL, *y, y);
}

/* The same weights twice in one segment: gradients of both uses add up by themselves. */
static hil_status block(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    hil_value *x;
    TRY(hil_values_get(in, "x", &x));
    TRY(pass(t, layer, x, &x));
    TRY(pass(t, layer, x, &x));
    return hil_values_set(out, "x", x);
}

/* Shares the table with the embedding, and adds the first segment's output once more. */
static hil_status head(hil_tape *t, void *layer, const hil_values *in, hil_values *out)
{
    const net *n = layer;
    (void)out;
    hil_value *x, *start;
    TRY(hil_values_get(in, "x", &x));
    TRY(hil_earlier(t, "embedding", "x", &start));
    TRY(hil_add(t, x, start, &x));
    TRY(hil_rmsnorm(t, x, n->last_norm, 1e-5, &x));
    return hil_head_loss(t, x, n->table);
}

static hil_status build(hil_model *m)
{
    net *n;
    TRY(hil_model_alloc(m, sizeof *n, (void **)&n));
    const hil_param_form square = {HIL_MATRIX, HIDDEN, HIDDEN, 0.1};
    const hil_param_form wide = {HIL_MATRIX, 3 * HIDDEN, HIDDEN, 0.1};
    const hil_param_form scale = {HIL_SCALE, 1, HIDDEN, 0};
    const struct {
        const char *name;
        hil_param_form form;
        hil_param **out;
    } row[] = {
        {"table", {HIL_MATRIX, VOCAB, HIDDEN, 0.1}, &n->table},
        {"positions", {HIL_MATRIX, SEQ, HIDDEN, 0.1}, &n->positions},
        {"block.norm", scale, &n->norm},
        {"block.q", square, &n->q},
        {"block.k", square, &n->k},
        {"block.v", square, &n->v},
        {"block.out", square, &n->out},
        {"block.up", wide, &n->up},
        {"block.gate", wide, &n->gate},
        {"block.down", {HIL_MATRIX, HIDDEN, 3 * HIDDEN, 0.1}, &n->down},
        {"last_norm", scale, &n->last_norm},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; ++i)
        TRY(hil_model_param(m, row[i].name, &row[i].form, row[i].out));
    TRY(hil_model_segment(m, "embedding", embed, n));
    TRY(hil_model_segment(m, "block", block, n));
    return hil_model_segment(m, "head", head, n);
}

/* Counting in steps of 1, 2 or 3: the model has to find out which from the tokens before. */
static void fill(int32_t *tokens, unsigned *random)
{
    for (int s = 0; s < BATCH; ++s) {
        *random = *random * 1664525u + 1013904223u;
        int at = (int)(*random >> 16) % VOCAB, step = 1 + (int)(*random >> 8) % 3;
        for (int i = 0; i < SEQ; ++i) tokens[s * SEQ + i] = (at + i * step) % VOCAB;
    }
}

static hil_status train(hil_trainer *trainer, double *first, double *last)
{
    static int32_t tokens[BATCH * SEQ];
    unsigned random = 1;
    hil_batch batch = {.sequences = BATCH, .length = SEQ, .token = tokens};
    for (int step = 1; step <= STEPS; ++step) {
        hil_step_result result;
        fill(tokens, &random);
        TRY(hil_trainer_step(trainer, &batch, BATCH / 2, 3e-3, &result));
        if (step == 1) *first = result.loss;
        *last = result.loss;
        if (step == 1 || step % 50 == 0) printf("step %3d  loss %.4f\n", step, result.loss);
    }
    return HIL_OK;
}

int main(void)
{
    hil_model *model = NULL;
    hil_trainer *trainer = NULL;
    hil_trainer_options options;
    double first = 0, last = 0;
    hil_trainer_defaults(&options);
    options.dtype = "fp32";
    hil_status status = hil_model_create(&model);
    if (status == HIL_OK) status = build(model);
    if (status == HIL_OK) status = hil_trainer_create(&trainer, model, &options);
    if (status == HIL_OK) status = train(trainer, &first, &last);
    if (status != HIL_OK) fprintf(stderr, "own_model: %s\n", hil_status_message());
    hil_trainer_destroy(trainer);
    hil_model_destroy(model);
    if (status != HIL_OK) return 1;
    if (!(last < 0.5 * first)) {
        fprintf(stderr, "own_model: the loss did not fall\n");
        return 1;
    }
    return 0;
}
