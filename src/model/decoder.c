/* decoder.c - the block that most architectures have: norms, rotary grouped attention and an MLP,
   with the options of the config. */
#include "model/delta_net.h"
#include "model/kimi_delta.h"
#include "model/latent.h"
#include "model/mamba.h"
#include "model/mixture.h"
#include "model/short_conv.h"

#include "autograd/adapter.h"

#include "base/fail.h"

#include <math.h>
#include <stdio.h>

/* A norm or a projection; NULL: it has no such parameter. */
typedef struct module {
    hil_param *weight, *bias;
} module;

/* What is between a part and its sum. */
typedef struct after {
    module norm;
    double factor; /* 0: none */
} after;

typedef struct ends {
    const hil_config *config;
    hil_param *table, *positions;
    module norm, head;
    int64_t mixtures;
} ends;

typedef struct layer {
    const hil_config *config;
    module attention_norm, mlp_norm, q_norm, k_norm;
    module q, k, v, qkv, o, own_gate, gate, up, gate_up, down;
    after after_attention, after_mlp;
    hil_xielu_params xielu;
    hil_mixture mixture;
    hil_latent latent;
    hil_delta_net delta; /* in place of attention */
    hil_kimi_delta kimi; /* likewise */
    hil_short_conv conv; /* likewise */
    hil_mamba mamba;     /* likewise */
    bool mixes, feeds;   /* it has attention or what is in its place; an MLP */
    int64_t heads, kv_heads;
    const hil_rope_table *rope;   /* NULL: none */
    const hil_rope_table *growth; /* of queries; NULL: they do not grow, or `rope` does it */
    hil_attention_options attention;
} layer;

static hil_status normalize(hil_tape *t, const hil_config *c, const module *n, hil_value *x,
                            hil_value **y)
{
    switch (c->norm) {
    case HIL_NORM_LAYER:
    case HIL_NORM_LAYER_BARE:
        return hil_layernorm(t, x, n->weight, n->bias, c->norm_eps, y);
    case HIL_NORM_LAYER_PLUS:
        return hil_layernorm_plus(t, x, n->weight, n->bias, c->norm_eps, y);
    case HIL_NORM_RMS_PLUS:
        return hil_rmsnorm_plus(t, x, n->weight, c->norm_eps, y);
    default:
        return hil_rmsnorm(t, x, n->weight, c->norm_eps, y);
    }
}

/* The same where the block has such a norm; else *y = x. */
static hil_status normalize_if(hil_tape *t, const hil_config *c, const module *n, hil_value *x,
                               hil_value **y)
{
    *y = x;
    bool bare = c->norm == HIL_NORM_LAYER_BARE || c->norm == HIL_NORM_RMS_BARE;
    if (!n->weight && !bare) return HIL_OK;
    return normalize(t, c, n, x, y);
}

/* A weight that is one plus what files hold begins at zero. */
static hil_role norm_role(const hil_config *c)
{
    bool plus = c->norm == HIL_NORM_RMS_PLUS || c->norm == HIL_NORM_LAYER_PLUS;
    return plus ? HIL_OFFSET : HIL_SCALE;
}

static hil_status project(hil_tape *t, const module *l, hil_value *x, hil_value **y)
{
    return hil_linear(t, x, l->weight, l->bias, y);
}

static hil_status embed(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    const hil_config *c = e->config;
    (void)in;
    hil_value *x;
    int64_t pad = c->frozen_pad ? c->pad : -1;
    HIL_TRY(hil_embedding_padded(t, hil_batch_tokens(t), e->table, pad, &x));
    if (c->embedding_scale > 0) HIL_TRY(hil_scale(t, x, c->embedding_scale, &x));
    if (e->positions) {
        hil_value *p, *ids = hil_batch_positions(t);
        HIL_TRY(hil_embedding_shifted(t, ids, e->positions, c->position_shift, &p));
        HIL_TRY(hil_add(t, x, p, &x));
    }
    if (c->embedding_norm) HIL_TRY(normalize(t, c, &(module){NULL, NULL}, x, &x));
    HIL_TRY(hil_dropout(t, x, c->dropout_embed, &x));
    return hil_values_set(out, "x", x);
}

/* (B, T, heads * D) to (B, T, heads, D). */
static hil_status split_heads(hil_tape *t, hil_value *x, int64_t heads, hil_value **y)
{
    int64_t shape[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), heads, -1};
    return hil_reshape(t, x, 4, shape, y);
}

static hil_status grow(hil_tape *t, const layer *l, hil_value **q)
{
    if (!l->growth) return HIL_OK;
    return hil_rope_with(t, *q, l->growth->frequency, &l->growth->query, q);
}

/* From the projection to q or k: split into heads, normalise, rotate; or rotate first. */
static hil_status turn(hil_tape *t, const layer *l, bool query, hil_value **x)
{
    const hil_config *c = l->config;
    const module *n = query ? &l->q_norm : &l->k_norm;
    int64_t heads = query ? l->heads : l->kv_heads;
    if (c->qk_norm == HIL_QK_NORM_WHOLE) HIL_TRY(normalize(t, c, n, *x, x));
    if (hil_value_dims(*x) == 3) HIL_TRY(split_heads(t, *x, heads, x));
    if (c->qk_norm == HIL_QK_NORM_HEAD) HIL_TRY(normalize(t, c, n, *x, x));
    if (c->qk_norm == HIL_QK_NORM_OWN) HIL_TRY(hil_head_norm(t, *x, n->weight, c->norm_eps, x));
    if (l->rope) {
        const hil_rope_options *options = query ? &l->rope->query : &l->rope->options;
        HIL_TRY(hil_rope_with(t, *x, l->rope->frequency, options, x));
    }
    if (query) HIL_TRY(grow(t, l, x));
    return c->qk_norm == HIL_QK_NORM_TURNED && l->rope ? normalize(t, c, n, *x, x) : HIL_OK;
}

/* Cuts the fused projection into q, k and v. */
static hil_status project_fused(hil_tape *t, const layer *l, hil_value *x, hil_value *qkv[3])
{
    const hil_config *c = l->config;
    int64_t q = l->heads * c->head_dim, kv = l->kv_heads * c->head_dim;
    HIL_TRY(project(t, &l->qkv, x, &x));
    if (!c->qkv_by_head) return hil_split(t, x, 3, (int64_t[]){q, kv, kv}, qkv);
    HIL_TRY(split_heads(t, x, l->kv_heads, &x));
    int64_t sizes[] = {q / l->kv_heads, c->head_dim, c->head_dim};
    HIL_TRY(hil_split(t, x, 3, sizes, qkv));
    return l->heads > l->kv_heads ? split_heads(t, qkv[0], l->heads, &qkv[0]) : HIL_OK;
}

/* Cuts each head of q into its query and the gate of its result. */
static hil_status split_gate(hil_tape *t, const layer *l, hil_value **q, hil_value **gate)
{
    hil_value *part[2];
    int64_t size = l->config->head_dim;
    HIL_TRY(split_heads(t, *q, l->heads, q));
    HIL_TRY(hil_split(t, *q, 2, (int64_t[]){size, size}, part));
    *q = part[0], *gate = part[1];
    return HIL_OK;
}

/* Attention over x, before the output projection. */
static hil_status attend(hil_tape *t, const layer *l, hil_value *x, hil_value **y)
{
    const hil_config *c = l->config;
    hil_value *part[3], *gate = NULL;
    if (l->delta.norm) return hil_delta_net_run(t, &l->delta, x, y);
    if (l->kimi.norm) return hil_kimi_delta_run(t, &l->kimi, x, y);
    if (l->conv.kernel) return hil_short_conv_run(t, &l->conv, x, y);
    if (l->mamba.in && !l->mamba.out) return hil_mamba_run(t, &l->mamba, x, y);
    if (c->attention_in > 0) HIL_TRY(hil_scale(t, x, c->attention_in, &x));
    if (l->latent.kv_down) {
        HIL_TRY(hil_latent_project(t, &l->latent, l->rope, x, part));
        HIL_TRY(grow(t, l, &part[0]));
    } else if (l->qkv.weight) {
        HIL_TRY(project_fused(t, l, x, part));
        HIL_TRY(turn(t, l, true, &part[0]));
        HIL_TRY(turn(t, l, false, &part[1]));
    } else {
        HIL_TRY(hil_linear_share(t, x, 3, (hil_param *[]){l->q.weight, l->k.weight, l->v.weight}));
        HIL_TRY(project(t, &l->q, x, &part[0]));
        if (c->gated) HIL_TRY(split_gate(t, l, &part[0], &gate));
        HIL_TRY(turn(t, l, true, &part[0]));
        HIL_TRY(project(t, &l->k, x, &part[1]));
        HIL_TRY(turn(t, l, false, &part[1]));
        HIL_TRY(project(t, &l->v, x, &part[2]));
    }
    if (hil_value_dims(part[2]) == 3) HIL_TRY(split_heads(t, part[2], l->kv_heads, &part[2]));
    if (c->value_scale > 0) HIL_TRY(hil_scale(t, part[2], c->value_scale, &part[2]));
    HIL_TRY(hil_attention(t, part[0], part[1], part[2], &l->attention, y));
    if (l->own_gate.weight) {
        HIL_TRY(project(t, &l->own_gate, x, &gate));
        HIL_TRY(split_heads(t, gate, l->heads, &gate));
    }
    if (gate) HIL_TRY((c->softplus_gate ? hil_softplus_gate : hil_sigmoid_gate)(t, *y, gate, y));
    int64_t shape[3] = {hil_value_dim(x, 0), hil_value_dim(x, 1), -1};
    return hil_reshape(t, *y, 3, shape, y);
}

/* The MLP over x, before its last projection. */
static hil_status feed(hil_tape *t, const layer *l, hil_value *x, hil_value **y)
{
    const hil_config *c = l->config;
    hil_value *part[2];
    hil_gelu_kind kind = c->activation == HIL_GELU ? HIL_GELU_EXACT : HIL_GELU_APPROXIMATE;
    if (!l->gate.weight && !l->gate_up.weight) {
        HIL_TRY(project(t, &l->up, x, &x));
        if (c->activation == HIL_RELU) return hil_relu(t, x, y);
        if (c->activation == HIL_RELU_SQUARED) return hil_relu_squared(t, x, y);
        if (c->activation == HIL_XIELU) return hil_xielu(t, x, &l->xielu, y);
        return hil_gelu(t, x, kind, y);
    }
    if (l->gate_up.weight) {
        HIL_TRY(project(t, &l->gate_up, x, &x));
        HIL_TRY(hil_split(t, x, 2, (int64_t[]){c->intermediate, c->intermediate}, part));
    } else if (c->activation == HIL_SILU && !(c->gate_scale > 0)) {
        return hil_linear_swiglu(t, x,
                                 &(hil_linear_gates){l->gate.weight, l->up.weight, l->gate.bias,
                                                     l->up.bias, l->down.weight},
                                 y);
    } else {
        HIL_TRY(hil_linear_share(t, x, 2, (hil_param *[]){l->gate.weight, l->up.weight}));
        HIL_TRY(project(t, &l->gate, x, &part[0]));
        HIL_TRY(project(t, &l->up, x, &part[1]));
    }
    if (c->gate_scale > 0) HIL_TRY(hil_scale(t, part[0], c->gate_scale, &part[0]));
    if (c->activation == HIL_SILU) return hil_swiglu(t, part[0], part[1], y);
    return hil_geglu(t, part[0], part[1], kind, y);
}

/* Adds x to *sum: after the norm of its part, dropout and a factor where the config says so. */
static hil_status add_result(hil_tape *t, const layer *l, hil_value *x, const after *post,
                             hil_value **sum)
{
    const hil_config *c = l->config;
    if (post->norm.weight) HIL_TRY(normalize(t, c, &post->norm, x, &x));
    HIL_TRY(hil_dropout(t, x, c->dropout_residual, &x));
    if (post->factor > 0) HIL_TRY(hil_scale(t, x, post->factor, &x));
    return hil_add(t, *sum, x, sum);
}

/* Whether nothing is between a part and its sum. */
static bool adds_plainly(const hil_config *c, const after *post)
{
    return !post->norm.weight && !(post->factor > 0) && !(c->dropout_residual > 0);
}

/* Adds a part to *sum, its last projection first; fused where nothing is between. */
static hil_status add_part(hil_tape *t, const layer *l, hil_value *x, const module *last,
                           const after *post, hil_value **sum)
{
    if (adds_plainly(l->config, post))
        return hil_linear_add(t, x, last->weight, last->bias, *sum, sum);
    HIL_TRY(project(t, last, x, &x));
    return add_result(t, l, x, post, sum);
}

/* *x += the MLP, or the mixture, of m. */
static hil_status add_mlp(hil_tape *t, const layer *l, hil_value *m, const hil_values *in,
                          hil_values *out, hil_value **x)
{
    if (l->mixture.router) {
        hil_routing routing;
        HIL_TRY(hil_mixture_route(t, &l->mixture, m, in, out, &routing));
        if (adds_plainly(l->config, &l->after_mlp))
            return hil_mixture_run(t, &l->mixture, m, &routing, *x, x);
        HIL_TRY(hil_mixture_run(t, &l->mixture, m, &routing, NULL, &m));
        return add_result(t, l, m, &l->after_mlp, x);
    }
    HIL_TRY(feed(t, l, m, &m));
    HIL_TRY(add_part(t, l, m, &l->down, &l->after_mlp, x));
    return hil_mixture_pass(&l->mixture, in, out);
}

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    const hil_config *c = l->config;
    hil_value *x, *h, *m;
    HIL_TRY(hil_values_get(in, "x", &x));
    m = x;
    if (l->mixes) {
        HIL_TRY(normalize_if(t, c, &l->attention_norm, x, &h));
        if (c->shared_norm) m = h;
        HIL_TRY(hil_mamba_add(t, &l->mamba, h, &x));
        HIL_TRY(attend(t, l, h, &h));
        HIL_TRY(add_part(t, l, h, &l->o, &l->after_attention, &x));
        if (!c->parallel) m = x;
    }
    if (l->feeds) {
        HIL_TRY(normalize_if(t, c, &l->mlp_norm, m, &m));
        HIL_TRY(add_mlp(t, l, m, in, out, &x));
    } else {
        HIL_TRY(hil_mixture_pass(&l->mixture, in, out));
    }
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    const hil_config *c = e->config;
    hil_head_options options;
    (void)out;
    hil_value *x;
    hil_head_defaults(&options);
    options.bias = e->head.bias;
    options.cap = c->logit_cap;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(normalize(t, c, &e->norm, x, &x));
    if (c->logit_scale > 0) HIL_TRY(hil_scale(t, x, c->logit_scale, &x));
    HIL_TRY(hil_head_loss_with(t, x, e->head.weight, &options));
    if (!e->mixtures || !(c->mixture.balance > 0)) return HIL_OK;
    hil_value *used;
    HIL_TRY(hil_values_get(in, "used", &used));
    return hil_balance_loss(t, used, e->mixtures, c->mixture.balance);
}

/* A block's tables of rotary embedding: of layers with full and with sliding attention. */
typedef struct ropes {
    hil_rope_table full, sliding, growth; /* growth: nothing turns */
} ropes;

static void set_options(layer *l, const hil_config *c, int64_t n, const ropes *tables)
{
    bool slides = hil_config_window(c, n) > 0;
    l->config = c;
    l->after_attention.factor = c->residual_scale > 0 ? c->residual_scale : c->attention_out;
    l->after_mlp.factor = c->residual_scale > 0 ? c->residual_scale : c->mlp_out;
    l->mixes = hil_config_mixes(c, n);
    l->feeds = hil_config_feeds(c, n);
    l->heads = hil_config_heads(c, n);
    l->kv_heads = hil_config_kv_heads(c, n);
    if (hil_config_turns(c, n)) l->rope = slides && c->has_local ? &tables->sliding : &tables->full;
    if (c->growth.factor != 0 && (!l->rope || c->latent.kv_rank)) l->growth = &tables->growth;
    hil_attention_defaults(&l->attention);
    l->attention.window = hil_config_window(c, n);
    l->attention.chunk = hil_config_chunk(c, n);
    l->attention.dropout = c->dropout_attention;
    l->attention.scale = c->attention_scale;
    l->attention.cap = c->attention_cap;
}

static hil_status add_sinks(hil_model *model, const hil_config *c, int64_t n, hil_param **out)
{
    char name[256];
    const hil_param_form form = {HIL_BIAS, 1, hil_config_heads(c, n), 0};
    snprintf(name, sizeof name, "%s%lld.%s", c->arch->names->blocks, (long long)n,
             c->arch->names->sinks);
    return hil_model_param(model, name, &form, out);
}

/* The output projection of attention, or of what a layer has in its place. */
typedef struct output {
    const char *name;
    int64_t width; /* of its input */
    bool bias;
    bool other; /* than attention */
    hil_role role;
} output;

static output output_of(const hil_config *c, int64_t n)
{
    const hil_arch *arch = c->arch;
    const hil_delta_config *delta = &c->delta;
    const hil_mamba_config *mamba = &c->mamba;
    int64_t value = hil_config_value_dim(c);
    if (hil_config_linear(c, n))
        return (output){arch->delta->out, delta->heads * delta->value_dim, false, true, HIL_MATRIX};
    if (hil_config_convolves(c, n))
        return (output){HIL_SHORT_CONV_OUT, c->hidden, false, true, HIL_MATRIX};
    if (hil_config_mamba(c, n) && !mamba->beside)
        return (output){arch->mamba->out, mamba->heads * mamba->head_dim, mamba->out_bias, true,
                        arch->mamba->whole ? HIL_ROUTER : HIL_MATRIX};
    return (output){arch->names->o, hil_config_heads(c, n) * value, c->output_bias, false,
                    HIL_MATRIX};
}

/* The activation's numbers begin as in transformers: its factors as 0.8 and 0.3. */
static hil_status add_xielu(hil_model *model, const hil_config *c, int64_t n, hil_xielu_params *out)
{
    const struct {
        const char *name;
        hil_role role;
        double value;
        hil_param **out;
    } rows[] = {{"alpha_p", HIL_BIAS, log(expm1(0.8)), &out->positive},
                {"alpha_n", HIL_BIAS, log(expm1(0.3)), &out->negative},
                {"beta", HIL_FIXED, 0.5, &out->beta},
                {"eps", HIL_FIXED, -1e-6, &out->eps}};
    char name[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        const hil_param_form form = {rows[i].role, 1, 1, rows[i].value};
        snprintf(name, sizeof name, "%s%lld.mlp.act_fn.%s", c->arch->names->blocks, (long long)n,
                 rows[i].name);
        HIL_TRY(hil_model_param(model, name, &form, rows[i].out));
    }
    return HIL_OK;
}

static const hil_arch_names *names_of(const hil_config *c, int64_t n)
{
    bool own = c->arch->linear_names && hil_config_linear(c, n);
    return own ? c->arch->linear_names : c->arch->names;
}

static hil_status add_block(hil_model *model, const hil_config *c, int64_t n, const ropes *tables)
{
    layer *l;
    HIL_TRY(hil_model_alloc(model, sizeof *l, (void **)&l));
    set_options(l, c, n, tables);
    int64_t d = c->hidden, q = l->heads * c->head_dim, kv = l->kv_heads * c->head_dim;
    int64_t v = l->kv_heads * hil_config_value_dim(c);
    int64_t f = c->intermediate, q_norm = c->head_dim, k_norm = c->head_dim;
    const output o = output_of(c, n);
    const bool mixes = l->mixes, feeds = l->feeds, other = o.other || !mixes;
    if (c->qk_norm == HIL_QK_NORM_WHOLE) q_norm = q, k_norm = kv;
    if (c->gated) q *= 2;
    bool bias = c->attention_bias && !other, plain = !c->norm_bias;
    double std = c->init_std, last = c->part_std > 0 ? c->part_std : std;
    const hil_arch_names *m = names_of(c, n);
    const hil_role one = norm_role(c);
    const char *own_norm = c->shared_norm || !feeds ? NULL : m->mlp_norm;
    bool no_qk = other || c->qk_norm == HIL_QK_NORM_NONE, own = c->qk_norm == HIL_QK_NORM_OWN;
    int64_t q_norms = own ? l->heads : 1, k_norms = own ? l->kv_heads : 1;
    HIL_TRY(hil_mixture_build(model, c, n, &l->mixture));
    if (l->mixture.router && c->mixture.part > 0) l->after_mlp.factor = c->mixture.part;
    HIL_TRY(hil_latent_build(model, c, n, "", &l->latent));
    HIL_TRY(hil_delta_net_build(model, c, n, &l->delta));
    HIL_TRY(hil_kimi_delta_build(model, c, n, &l->kimi));
    HIL_TRY(hil_short_conv_build(model, c, n, &l->conv));
    HIL_TRY(hil_mamba_build(model, c, n, &l->mamba));
    if (c->activation == HIL_XIELU) HIL_TRY(add_xielu(model, c, n, &l->xielu));
    if (m->sinks && (!c->local_sinks || l->attention.window))
        HIL_TRY(add_sinks(model, c, n, &l->attention.sinks));
    bool mixed = l->mixture.router || !feeds, no_bias = mixed || !c->mlp_bias;
    bool no_post = c->no_post_norms, no_own = c->mixture_post_norms && !l->mixture.router;
    int64_t gates = c->own_gate == HIL_OWN_GATE_NONE   ? 0
                    : c->own_gate == HIL_OWN_GATE_HEAD ? l->heads
                                                       : q;
    const hil_build_row rows[] = {
        {m->attention_norm, {one, 1, d, 0}, &l->attention_norm.weight, !mixes},
        {m->attention_norm, {HIL_BIAS, 1, d, 0}, &l->attention_norm.bias, plain || !mixes},
        {m->q, {HIL_MATRIX, q, d, std}, &l->q.weight, other},
        {m->q, {HIL_BIAS, 1, q, 0}, &l->q.bias, !bias},
        {m->k, {HIL_MATRIX, kv, d, std}, &l->k.weight, other},
        {m->k, {HIL_BIAS, 1, kv, 0}, &l->k.bias, !bias},
        {m->v, {HIL_MATRIX, v, d, std}, &l->v.weight, other},
        {m->v, {HIL_BIAS, 1, v, 0}, &l->v.bias, !bias},
        {m->qkv, {HIL_MATRIX, q + 2 * kv, d, std}, &l->qkv.weight, false},
        {m->qkv, {HIL_BIAS, 1, q + 2 * kv, 0}, &l->qkv.bias, !bias},
        {m->q_norm, {one, q_norms, q_norm, 0}, &l->q_norm.weight, no_qk},
        {m->q_norm, {HIL_BIAS, 1, q_norm, 0}, &l->q_norm.bias, no_qk || own || plain},
        {m->k_norm, {one, k_norms, k_norm, 0}, &l->k_norm.weight, no_qk},
        {m->k_norm, {HIL_BIAS, 1, k_norm, 0}, &l->k_norm.bias, no_qk || own || plain},
        {m->own_gate, {HIL_MATRIX, gates, d, std}, &l->own_gate.weight, !gates || other},
        {o.name, {o.role, d, o.width, last}, &l->o.weight, !mixes},
        {o.name, {HIL_BIAS, 1, d, 0}, &l->o.bias, !o.bias || !mixes},
        {m->attention_post_norm, {one, 1, d, 0}, &l->after_attention.norm.weight, no_post},
        {own_norm, {one, 1, d, 0}, &l->mlp_norm.weight, false},
        {own_norm, {HIL_BIAS, 1, d, 0}, &l->mlp_norm.bias, plain},
        {m->gate, {HIL_MATRIX, f, d, std}, &l->gate.weight, mixed},
        {m->gate, {HIL_BIAS, 1, f, 0}, &l->gate.bias, no_bias},
        {m->up, {HIL_MATRIX, f, d, std}, &l->up.weight, mixed},
        {m->up, {HIL_BIAS, 1, f, 0}, &l->up.bias, no_bias},
        {m->gate_up, {HIL_MATRIX, 2 * f, d, std}, &l->gate_up.weight, mixed},
        {m->down, {HIL_MATRIX, d, f, last}, &l->down.weight, mixed},
        {m->down, {HIL_BIAS, 1, d, 0}, &l->down.bias, no_bias},
        {m->mlp_post_norm, {one, 1, d, 0}, &l->after_mlp.norm.weight, no_post || no_own},
    };
    const hil_build_table table = {m->blocks, n, rows, sizeof rows / sizeof *rows};
    return hil_build_block(model, &table, block, l);
}

static hil_status add_blocks(hil_model *model, const hil_config *c)
{
    ropes *tables;
    HIL_TRY(hil_model_alloc(model, sizeof *tables, (void **)&tables));
    HIL_TRY(hil_build_rope(model, c, &c->rope, &tables->full));
    if (c->has_local) HIL_TRY(hil_build_rope(model, c, &c->local_rope, &tables->sliding));
    if (c->growth.factor != 0) HIL_TRY(hil_build_growth(model, c, &tables->growth));
    for (int64_t n = 0; n < c->layers; ++n) HIL_TRY(add_block(model, c, n, tables));
    return HIL_OK;
}

hil_status hil_build_around(hil_model *model, const hil_config *config, hil_build_blocks_fn *add)
{
    ends *e;
    const hil_config *c;
    HIL_TRY(hil_model_alloc(model, sizeof *e, (void **)&e));
    HIL_TRY(hil_build_config(model, config, &c));
    e->config = c;
    e->mixtures = hil_mixture_before(c, c->layers);
    const hil_arch_names *m = c->arch->names;
    const hil_role one = norm_role(c);
    double embedding_std = c->embedding_std > 0 ? c->embedding_std : c->init_std;
    const hil_param_form table = {HIL_MATRIX, c->vocab, c->hidden, embedding_std};
    const hil_param_form rows = {HIL_MATRIX, c->vocab, c->hidden, c->init_std};
    const hil_param_form scale = {one, 1, c->hidden, 0};
    const hil_param_form norm_bias = {HIL_BIAS, 1, c->hidden, 0}, bias = {HIL_BIAS, 1, c->vocab, 0};
    HIL_TRY(hil_build_param(model, m->embedding, &table, &e->table));
    const hil_param_form places = {HIL_MATRIX, c->max_positions + c->position_shift, c->hidden,
                                   c->init_std};
    if (m->positions) HIL_TRY(hil_build_param(model, m->positions, &places, &e->positions));
    HIL_TRY(hil_model_segment(model, "embedding", embed, e));
    HIL_TRY(add(model, c));
    if (m->norm) HIL_TRY(hil_build_param(model, m->norm, &scale, &e->norm.weight));
    if (c->norm_bias) HIL_TRY(hil_build_param(model, m->norm, &norm_bias, &e->norm.bias));
    e->head.weight = e->table;
    if (!c->tied) HIL_TRY(hil_build_param(model, m->head, &rows, &e->head.weight));
    if (c->head_bias) HIL_TRY(hil_build_param(model, m->head, &bias, &e->head.bias));
    return hil_model_segment(model, "head", head, e);
}

hil_status hil_build_decoder(hil_model *model, const hil_config *config)
{
    return hil_build_around(model, config, add_blocks);
}
