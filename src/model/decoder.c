/* decoder.c - the block that most architectures have: norm, rotary grouped attention, gated MLP. */
#include "model/mixture.h"

#include "base/fail.h"

#include <math.h>
#include <stdio.h>

typedef struct ends {
    hil_param *table, *norm, *head;
    double eps;
    int64_t mixtures;
    double balance; /* coefficient of the auxiliary loss; 0: none */
} ends;

typedef struct layer {
    hil_param *attention_norm, *q, *k, *v, *o, *q_bias, *k_bias, *v_bias, *o_bias;
    hil_param *q_norm, *k_norm; /* NULL: none */
    hil_param *mlp_norm, *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
    hil_mixture mixture;
    const float *frequency;
    int64_t heads, kv_heads, head_dim;
    double eps;
    hil_attention_options attention;
} layer;

static hil_status embed(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    (void)in;
    hil_value *x;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), e->table, &x));
    return hil_values_set(out, "x", x);
}

/* (B, T, heads * D) to (B, T, heads, D). */
static hil_status split_heads(hil_tape *t, hil_value *x, int64_t heads, hil_value **y)
{
    int64_t shape[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), heads, -1};
    return hil_reshape(t, x, 4, shape, y);
}

/* Computes q or k: project, split into heads, normalise per head, rotate. */
static hil_status rotated(hil_tape *t, const layer *l, hil_value *x, hil_param *const part[3],
                          int64_t heads, hil_value **y)
{
    HIL_TRY(hil_linear(t, x, part[0], part[1], y));
    HIL_TRY(split_heads(t, *y, heads, y));
    if (part[2]) HIL_TRY(hil_rmsnorm(t, *y, part[2], l->eps, y));
    return hil_rope(t, *y, l->frequency, y);
}

/* residual + attention over x. */
static hil_status attend(hil_tape *t, const layer *l, hil_value *x, hil_value *residual,
                         hil_value **y)
{
    hil_value *q, *k, *v;
    HIL_TRY(rotated(t, l, x, (hil_param *[]){l->q, l->q_bias, l->q_norm}, l->heads, &q));
    HIL_TRY(rotated(t, l, x, (hil_param *[]){l->k, l->k_bias, l->k_norm}, l->kv_heads, &k));
    HIL_TRY(hil_linear(t, x, l->v, l->v_bias, &v));
    HIL_TRY(split_heads(t, v, l->kv_heads, &v));
    HIL_TRY(hil_attention(t, q, k, v, &l->attention, y));
    int64_t shape[3] = {hil_value_dim(x, 0), hil_value_dim(x, 1), -1};
    HIL_TRY(hil_reshape(t, *y, 3, shape, y));
    return hil_linear_add(t, *y, l->o, l->o_bias, residual, y);
}

/* residual + MLP of x. */
static hil_status feed_forward(hil_tape *t, const layer *l, hil_value *x, hil_value *residual,
                               hil_value **y)
{
    hil_value *gate, *up;
    HIL_TRY(hil_linear(t, x, l->gate, l->gate_bias, &gate));
    HIL_TRY(hil_linear(t, x, l->up, l->up_bias, &up));
    HIL_TRY(hil_swiglu(t, gate, up, &x));
    return hil_linear_add(t, x, l->down, l->down_bias, residual, y);
}

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    hil_value *x, *h;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_rmsnorm(t, x, l->attention_norm, l->eps, &h));
    HIL_TRY(attend(t, l, h, x, &x));
    HIL_TRY(hil_rmsnorm(t, x, l->mlp_norm, l->eps, &h));
    if (l->mixture.router) {
        hil_routing routing;
        HIL_TRY(hil_mixture_route(t, &l->mixture, h, in, out, &routing));
        HIL_TRY(hil_mixture_run(t, &l->mixture, h, &routing, x, &x));
    } else {
        HIL_TRY(feed_forward(t, l, h, x, &x));
        HIL_TRY(hil_mixture_pass(&l->mixture, in, out));
    }
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    (void)out;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_rmsnorm(t, x, e->norm, e->eps, &x));
    HIL_TRY(hil_head_loss(t, x, e->head));
    if (!e->mixtures || !(e->balance > 0)) return HIL_OK;
    hil_value *used;
    HIL_TRY(hil_values_get(in, "used", &used));
    return hil_balance_loss(t, used, e->mixtures, e->balance);
}

/* Inverse frequencies, as transformers computes them (in fp32), with the config's scaling. */
static hil_status make_frequencies(hil_model *model, const hil_config *c, const float **out)
{
    int64_t half = c->head_dim / 2;
    float *f;
    HIL_TRY(hil_model_alloc(model, (size_t)half * sizeof *f, (void **)&f));
    for (int64_t i = 0; i < half; ++i) {
        float exponent = (float)(2 * i) / (float)c->head_dim;
        f[i] = 1.0f / powf((float)c->rope.theta, exponent);
        if (c->rope.kind == HIL_ROPE_LINEAR) f[i] = (float)((double)f[i] / c->rope.factor);
        if (c->rope.kind != HIL_ROPE_LLAMA3) continue;
        double wave = 6.283185307179586 / (double)f[i];
        double original = (double)c->rope.original_positions;
        if (wave > original / c->rope.low_freq) {
            f[i] = (float)((double)f[i] / c->rope.factor);
        } else if (wave >= original / c->rope.high_freq) {
            double smooth =
                (original / wave - c->rope.low_freq) / (c->rope.high_freq - c->rope.low_freq);
            f[i] = (float)((1 - smooth) * (double)f[i] / c->rope.factor + smooth * (double)f[i]);
        }
    }
    *out = f;
    return HIL_OK;
}

static hil_status add_block(hil_model *model, const hil_config *c, int64_t n,
                            const float *frequency)
{
    layer *l;
    HIL_TRY(hil_model_alloc(model, sizeof *l, (void **)&l));
    *l = (layer){.frequency = frequency,
                 .heads = c->heads,
                 .kv_heads = c->kv_heads,
                 .head_dim = c->head_dim,
                 .eps = c->norm_eps};
    hil_attention_defaults(&l->attention);
    l->attention.window = hil_config_window(c, n);
    l->attention.dropout = c->dropout_attention;
    int64_t d = c->hidden, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    int64_t f = c->intermediate;
    bool bias = c->attention_bias, norms = c->head_norms;
    double std = c->init_std;
    const hil_arch_names *m = c->arch->names;
    HIL_TRY(hil_mixture_build(model, c, n, &l->mixture));
    bool mixed = l->mixture.router;
    const hil_build_row rows[] = {
        {m->attention_norm, {HIL_SCALE, 1, d, 0}, &l->attention_norm, false},
        {m->q, {HIL_MATRIX, q, d, std}, &l->q, false},
        {m->q, {HIL_BIAS, 1, q, 0}, &l->q_bias, !bias},
        {m->k, {HIL_MATRIX, kv, d, std}, &l->k, false},
        {m->k, {HIL_BIAS, 1, kv, 0}, &l->k_bias, !bias},
        {m->v, {HIL_MATRIX, kv, d, std}, &l->v, false},
        {m->v, {HIL_BIAS, 1, kv, 0}, &l->v_bias, !bias},
        {m->q_norm, {HIL_SCALE, 1, c->head_dim, 0}, &l->q_norm, !norms},
        {m->k_norm, {HIL_SCALE, 1, c->head_dim, 0}, &l->k_norm, !norms},
        {m->o, {HIL_MATRIX, d, q, std}, &l->o, false},
        {m->o, {HIL_BIAS, 1, d, 0}, &l->o_bias, !c->output_bias},
        {m->mlp_norm, {HIL_SCALE, 1, d, 0}, &l->mlp_norm, false},
        {m->gate, {HIL_MATRIX, f, d, std}, &l->gate, mixed},
        {m->gate, {HIL_BIAS, 1, f, 0}, &l->gate_bias, mixed || !c->mlp_bias},
        {m->up, {HIL_MATRIX, f, d, std}, &l->up, mixed},
        {m->up, {HIL_BIAS, 1, f, 0}, &l->up_bias, mixed || !c->mlp_bias},
        {m->down, {HIL_MATRIX, d, f, std}, &l->down, mixed},
        {m->down, {HIL_BIAS, 1, d, 0}, &l->down_bias, mixed || !c->mlp_bias},
    };
    const hil_build_table table = {m->blocks, n, rows, sizeof rows / sizeof *rows};
    return hil_build_block(model, &table, block, l);
}

hil_status hil_build_decoder(hil_model *model, const hil_config *c)
{
    ends *e;
    HIL_TRY(hil_model_alloc(model, sizeof *e, (void **)&e));
    e->eps = c->norm_eps;
    e->mixtures = hil_mixture_before(c, c->layers);
    e->balance = c->mixture.balance;
    const hil_arch_names *m = c->arch->names;
    const hil_param_form table = {HIL_MATRIX, c->vocab, c->hidden, c->init_std};
    const hil_param_form norm = {HIL_SCALE, 1, c->hidden, 0};
    HIL_TRY(hil_build_param(model, m->embedding, &table, &e->table));
    HIL_TRY(hil_model_segment(model, "embedding", embed, e));
    const float *frequency;
    HIL_TRY(make_frequencies(model, c, &frequency));
    for (int64_t n = 0; n < c->layers; ++n) HIL_TRY(add_block(model, c, n, frequency));
    HIL_TRY(hil_build_param(model, m->norm, &norm, &e->norm));
    e->head = e->table;
    if (!c->tied) HIL_TRY(hil_build_param(model, m->head, &table, &e->head));
    return hil_model_segment(model, "head", head, e);
}
