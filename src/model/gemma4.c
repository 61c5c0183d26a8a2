/* gemma4.c - Gemma 4: layers with full attention have larger heads than those with a window; the
   last layers attend to the keys and values of earlier ones; small models have a second embedding,
   of which each layer gets a part; one has experts beside the MLP. */
#include "model/mixture.h"

#include "base/fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ends {
    const hil_config *config;
    hil_param *table, *head, *norm;
    hil_param *inputs, *projection, *projection_norm; /* of what layers get; NULL: nothing */
} ends;

typedef struct layer {
    const hil_config *config;
    int64_t number, heads, kv_heads;
    hil_param *attention_norm, *attention_post_norm, *mlp_norm, *mlp_post_norm;
    hil_param *q, *k, *v, *o, *q_norm, *k_norm; /* k NULL: those of `source`; v NULL: from k */
    hil_param *gate, *up, *down;
    hil_mixture mixture; /* beside the MLP */
    hil_param *router_norm, *mlp_own_norm, *experts_norm, *experts_post_norm;
    hil_param *input_gate, *input_projection, *input_norm; /* NULL: it gets nothing */
    hil_param *scalar;
    bool lends;      /* later layers have its keys and values */
    char source[32]; /* the segment whose keys and values it has */
    hil_rope_table rope;
    hil_attention_options attention;
} layer;

static hil_status normalize(hil_tape *t, const hil_config *c, hil_value *x, hil_param *weight,
                            hil_value **y)
{
    return hil_rmsnorm(t, x, weight, c->norm_eps, y);
}

/* What all layers get of each token, side by side. */
static hil_status find_inputs(hil_tape *t, const ends *e, hil_value *x, hil_value **y)
{
    const hil_config *c = e->config;
    const hil_varied_config *v = &c->varied;
    hil_value *row, *sum;
    int64_t parts[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), c->layers, v->input};
    int64_t whole[3] = {parts[0], parts[1], c->layers * v->input};
    HIL_TRY(hil_linear(t, x, e->projection, NULL, &sum));
    HIL_TRY(hil_scale(t, sum, 1 / sqrt((double)c->hidden), &sum));
    HIL_TRY(hil_reshape(t, sum, 4, parts, &sum));
    HIL_TRY(normalize(t, c, sum, e->projection_norm, &sum));
    HIL_TRY(hil_reshape(t, sum, 3, whole, &sum));
    HIL_TRY(hil_embedding_padded(t, hil_batch_tokens(t), e->inputs, c->pad, &row));
    HIL_TRY(hil_scale(t, row, sqrt((double)v->input), &row));
    HIL_TRY(hil_add(t, sum, row, &sum));
    return hil_scale(t, sum, sqrt(0.5), y);
}

static hil_status embed(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    hil_value *x, *inputs;
    (void)in;
    HIL_TRY(hil_embedding_padded(t, hil_batch_tokens(t), e->table, e->config->pad, &x));
    HIL_TRY(hil_scale(t, x, e->config->embedding_scale, &x));
    HIL_TRY(hil_values_set(out, "x", x));
    if (!e->inputs) return HIL_OK;
    HIL_TRY(find_inputs(t, e, x, &inputs));
    return hil_values_set(out, "inputs", inputs);
}

/* x (B, T, heads D) to (B, T, heads, D), normalised. */
static hil_status split_heads(hil_tape *t, const layer *l, int64_t heads, hil_param *norm,
                              hil_value **x)
{
    int64_t shape[4] = {hil_value_dim(*x, 0), hil_value_dim(*x, 1), heads, -1};
    HIL_TRY(hil_reshape(t, *x, 4, shape, x));
    return normalize(t, l->config, *x, norm, x);
}

/* Keys and values: those of the layer, or of the one that lends its own. */
static hil_status find_keys(hil_tape *t, const layer *l, hil_value *x, hil_values *out,
                            hil_value *part[2])
{
    if (!l->k) {
        HIL_TRY(hil_earlier(t, l->source, "k", &part[0]));
        return hil_earlier(t, l->source, "v", &part[1]);
    }
    HIL_TRY(hil_linear(t, x, l->k, NULL, &part[0]));
    part[1] = part[0];
    if (l->v) HIL_TRY(hil_linear(t, x, l->v, NULL, &part[1]));
    HIL_TRY(split_heads(t, l, l->kv_heads, NULL, &part[1]));
    HIL_TRY(split_heads(t, l, l->kv_heads, l->k_norm, &part[0]));
    HIL_TRY(hil_rope_with(t, part[0], l->rope.frequency, &l->rope.options, &part[0]));
    if (!l->lends) return HIL_OK;
    HIL_TRY(hil_values_set(out, "k", part[0]));
    return hil_values_set(out, "v", part[1]);
}

static hil_status attend(hil_tape *t, const layer *l, hil_value *x, hil_values *out, hil_value **y)
{
    hil_value *q, *part[2];
    int64_t shape[3] = {hil_value_dim(x, 0), hil_value_dim(x, 1), -1};
    HIL_TRY(hil_linear_share(t, x, l->v ? 3 : l->k ? 2 : 1, (hil_param *[]){l->q, l->k, l->v}));
    HIL_TRY(hil_linear(t, x, l->q, NULL, &q));
    HIL_TRY(split_heads(t, l, l->heads, l->q_norm, &q));
    HIL_TRY(hil_rope_with(t, q, l->rope.frequency, &l->rope.options, &q));
    HIL_TRY(find_keys(t, l, x, out, part));
    HIL_TRY(hil_attention(t, q, part[0], part[1], &l->attention, y));
    HIL_TRY(hil_reshape(t, *y, 3, shape, y));
    return hil_linear(t, *y, l->o, NULL, y);
}

static hil_gelu_kind gelu_of(const layer *l)
{
    return l->config->activation == HIL_GELU ? HIL_GELU_EXACT : HIL_GELU_APPROXIMATE;
}

static hil_status feed(hil_tape *t, const layer *l, hil_value *x, hil_value **y)
{
    hil_value *gate, *up;
    HIL_TRY(hil_linear_share(t, x, 2, (hil_param *[]){l->gate, l->up}));
    HIL_TRY(hil_linear(t, x, l->gate, NULL, &gate));
    HIL_TRY(hil_linear(t, x, l->up, NULL, &up));
    HIL_TRY(hil_geglu(t, gate, up, gelu_of(l), y));
    return hil_linear(t, *y, l->down, NULL, y);
}

/* *h, the MLP of x, plus the experts of x. The router and the experts have norms of their own. */
static hil_status add_experts(hil_tape *t, const layer *l, hil_value *x, hil_value **h)
{
    const hil_config *c = l->config;
    hil_routing routing;
    hil_value *y;
    HIL_TRY(normalize(t, c, x, l->router_norm, &y));
    HIL_TRY(hil_scale(t, y, 1 / sqrt((double)c->hidden), &y));
    HIL_TRY(hil_mixture_route(t, &l->mixture, y, NULL, NULL, &routing));
    HIL_TRY(normalize(t, c, x, l->experts_norm, &y));
    HIL_TRY(hil_mixture_run(t, &l->mixture, y, &routing, NULL, &y));
    HIL_TRY(normalize(t, c, y, l->experts_post_norm, &y));
    HIL_TRY(normalize(t, c, *h, l->mlp_own_norm, h));
    return hil_add(t, *h, y, h);
}

/* The layer's part of what all get. */
static hil_status take_input(hil_tape *t, const layer *l, hil_value **y)
{
    int64_t size = l->config->varied.input, before = l->number * size;
    int64_t sizes[3] = {before, size, (l->config->layers - 1) * size - before};
    hil_value *part[3], *all;
    HIL_TRY(hil_earlier(t, "embedding", "inputs", &all));
    int first = before ? 0 : 1, count = (sizes[2] ? 3 : 2) - first;
    HIL_TRY(hil_split(t, all, count, sizes + first, part + first));
    *y = part[1];
    return HIL_OK;
}

static hil_status add_input(hil_tape *t, const layer *l, hil_value **x)
{
    hil_value *own, *y;
    HIL_TRY(take_input(t, l, &own));
    HIL_TRY(hil_linear(t, *x, l->input_gate, NULL, &y));
    HIL_TRY(hil_geglu(t, y, own, gelu_of(l), &y));
    HIL_TRY(hil_linear(t, y, l->input_projection, NULL, &y));
    HIL_TRY(normalize(t, l->config, y, l->input_norm, &y));
    return hil_add(t, *x, y, x);
}

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    const hil_config *c = l->config;
    hil_value *x, *h;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(normalize(t, c, x, l->attention_norm, &h));
    HIL_TRY(attend(t, l, h, out, &h));
    HIL_TRY(normalize(t, c, h, l->attention_post_norm, &h));
    HIL_TRY(hil_add(t, x, h, &x));
    HIL_TRY(normalize(t, c, x, l->mlp_norm, &h));
    HIL_TRY(feed(t, l, h, &h));
    if (l->mixture.router) HIL_TRY(add_experts(t, l, x, &h));
    HIL_TRY(normalize(t, c, h, l->mlp_post_norm, &h));
    HIL_TRY(hil_add(t, x, h, &x));
    if (l->input_gate) HIL_TRY(add_input(t, l, &x));
    HIL_TRY(hil_scale_fixed(t, x, l->scalar, &x));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    hil_head_options options;
    hil_value *x;
    (void)out;
    hil_head_defaults(&options);
    options.cap = e->config->logit_cap;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(normalize(t, e->config, x, e->norm, &x));
    return hil_head_loss_with(t, x, e->head, &options);
}

/* The last layer of the kind of layer n that has keys of its own. */
static int64_t find_source(const hil_config *c, int64_t n)
{
    int64_t last = c->layers - c->varied.reusing - 1;
    bool slides = hil_config_window(c, n) > 0;
    while (last >= 0 && (hil_config_window(c, last) > 0) != slides) --last;
    return last;
}

static hil_status set_layer(hil_model *model, const hil_config *c, int64_t n, layer *l)
{
    bool slides = hil_config_window(c, n) > 0;
    hil_config sized = *c;
    if (!slides) sized.head_dim = c->varied.head_dim;
    l->config = c;
    l->number = n;
    l->heads = c->heads;
    l->kv_heads = slides ? c->kv_heads : c->varied.kv_heads;
    l->lends = c->varied.reusing && find_source(c, n) == n;
    snprintf(l->source, sizeof l->source, "block %lld", (long long)find_source(c, n));
    hil_attention_defaults(&l->attention);
    l->attention.window = hil_config_window(c, n);
    l->attention.dropout = c->dropout_attention;
    l->attention.scale = 1;
    return hil_build_rope(model, &sized, slides ? &c->local_rope : &c->rope, &l->rope);
}

static hil_status add_scalar(hil_model *model, const hil_config *c, layer *l)
{
    const hil_param_form one = {HIL_FIXED_SCALE, 1, 1, 0};
    char name[256];
    snprintf(name, sizeof name, "%s%lld.layer_scalar", c->arch->names->blocks,
             (long long)l->number);
    return hil_model_param(model, name, &one, &l->scalar);
}

static hil_status add_mixture(hil_model *model, const hil_config *c, layer *l)
{
    const hil_param_form scale = {HIL_SCALE, 1, c->hidden, 0};
    char name[256];
    const hil_build_row rows[] = {
        {"post_feedforward_layernorm_1", scale, &l->mlp_own_norm, false},
        {"pre_feedforward_layernorm_2", scale, &l->experts_norm, false},
        {"post_feedforward_layernorm_2", scale, &l->experts_post_norm, false},
    };
    const hil_build_table table = {c->arch->names->blocks, l->number, rows,
                                   sizeof rows / sizeof *rows};
    HIL_TRY(hil_mixture_build(model, c, l->number, &l->mixture));
    if (!l->mixture.router) return HIL_OK;
    snprintf(name, sizeof name, "%s%lld.router.scale", c->arch->names->blocks,
             (long long)l->number);
    HIL_TRY(hil_model_param(model, name, &scale, &l->router_norm));
    return hil_build_params(model, &table);
}

static hil_status add_block(hil_model *model, const hil_config *c, int64_t n)
{
    layer *l;
    HIL_TRY(hil_model_alloc(model, sizeof *l, (void **)&l));
    HIL_TRY(set_layer(model, c, n, l));
    HIL_TRY(add_scalar(model, c, l));
    HIL_TRY(add_mixture(model, c, l));
    bool slides = l->attention.window > 0, reuses = n >= c->layers - c->varied.reusing;
    int64_t size = slides ? c->head_dim : c->varied.head_dim, d = c->hidden;
    int64_t q = l->heads * size, kv = l->kv_heads * size, p = c->varied.input;
    int64_t f = c->intermediate * (reuses && c->varied.wide ? 2 : 1);
    double std = c->init_std;
    bool no_values = reuses || (c->varied.same_values && !slides);
    const hil_param_form scale = {HIL_SCALE, 1, d, 0}, small = {HIL_SCALE, 1, size, 0};
    const hil_param_form inner = {HIL_MATRIX, f, d, std};
    const hil_arch_names *m = c->arch->names;
    const hil_build_row rows[] = {
        {m->attention_norm, scale, &l->attention_norm, false},
        {m->q, {HIL_MATRIX, q, d, std}, &l->q, false},
        {m->k, {HIL_MATRIX, kv, d, std}, &l->k, reuses},
        {m->v, {HIL_MATRIX, kv, d, std}, &l->v, no_values},
        {m->q_norm, small, &l->q_norm, false},
        {m->k_norm, small, &l->k_norm, reuses},
        {m->o, {HIL_MATRIX, d, q, std}, &l->o, false},
        {m->attention_post_norm, scale, &l->attention_post_norm, false},
        {m->mlp_norm, scale, &l->mlp_norm, false},
        {m->gate, inner, &l->gate, false},
        {m->up, inner, &l->up, false},
        {m->down, {HIL_MATRIX, d, f, std}, &l->down, false},
        {m->mlp_post_norm, scale, &l->mlp_post_norm, false},
        {"per_layer_input_gate", {HIL_MATRIX, p, d, std}, &l->input_gate, !p},
        {"per_layer_projection", {HIL_MATRIX, d, p, std}, &l->input_projection, !p},
        {"post_per_layer_input_norm", scale, &l->input_norm, !p},
    };
    const hil_build_table table = {m->blocks, n, rows, sizeof rows / sizeof *rows};
    return hil_build_block(model, &table, block, l);
}

static hil_status add_inputs(hil_model *model, const hil_config *c, ends *e)
{
    int64_t width = c->layers * c->varied.input;
    const hil_param_form table = {HIL_MATRIX, c->varied.inputs, width, c->init_std};
    const hil_param_form projection = {HIL_MATRIX, width, c->hidden, c->init_std};
    const hil_param_form norm = {HIL_SCALE, 1, c->varied.input, 0};
    if (!c->varied.input) return HIL_OK;
    HIL_TRY(hil_build_param(model, "model.embed_tokens_per_layer", &table, &e->inputs));
    HIL_TRY(
        hil_build_param(model, "model.per_layer_model_projection", &projection, &e->projection));
    hil_param_mark_linear(e->projection);
    return hil_build_param(model, "model.per_layer_projection_norm", &norm, &e->projection_norm);
}

static hil_status build(hil_model *model, const hil_config *config)
{
    ends *e;
    const hil_config *c;
    HIL_TRY(hil_model_alloc(model, sizeof *e, (void **)&e));
    HIL_TRY(hil_build_config(model, config, &c));
    e->config = c;
    const hil_param_form table = {HIL_MATRIX, c->vocab, c->hidden, c->init_std};
    const hil_param_form scale = {HIL_SCALE, 1, c->hidden, 0};
    const hil_arch_names *m = c->arch->names;
    HIL_TRY(hil_build_param(model, m->embedding, &table, &e->table));
    HIL_TRY(add_inputs(model, c, e));
    HIL_TRY(hil_model_segment(model, "embedding", embed, e));
    for (int64_t n = 0; n < c->layers; ++n) HIL_TRY(add_block(model, c, n));
    HIL_TRY(hil_build_param(model, m->norm, &scale, &e->norm));
    e->head = e->table;
    if (!c->tied) HIL_TRY(hil_build_param(model, m->head, &table, &e->head));
    return hil_model_segment(model, "head", head, e);
}

/* per_layer_config: the sizes of layers with full attention, as transformers 5 writes them. Empty:
   those of the other layers. */
static hil_status read_overrides(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_varied_config *v = &c->varied;
    json_t *all = json_object_get(r->object, "per_layer_config"), *one;
    hil_varied_config first = {.head_dim = c->head_dim, .kv_heads = c->kv_heads};
    const char *key;
    char canonical[32];
    int64_t seen = 0, full = 0;
    if (!json_is_object(all) && !json_is_null(all))
        return hil_config_refuse(r, "per_layer_config", "must be an object");
    for (int64_t n = 0; n < c->layers; ++n) full += hil_config_window(c, n) == 0;
    json_object_foreach(all, key, one)
    {
        long long n = strtoll(key, NULL, 10);
        const hil_config_reader inner = {one, r->what, c};
        hil_varied_config now = {.head_dim = c->head_dim, .kv_heads = c->kv_heads};
        snprintf(canonical, sizeof canonical, "%lld", n);
        if (strcmp(key, canonical) != 0 || n < 0 || n >= c->layers || hil_config_window(c, n) ||
            !json_is_object(one))
            return hil_config_refuse(r, "per_layer_config", "is about more than full attention");
        HIL_TRY(hil_config_size(&inner, "head_dim", NULL, HIL_CONFIG_HEADS_MAX, &now.head_dim));
        HIL_TRY(hil_config_size(&inner, "num_key_value_heads", NULL, HIL_CONFIG_HEADS_MAX,
                                &now.kv_heads));
        if (!seen++) first = now;
        if (now.head_dim != first.head_dim || now.kv_heads != first.kv_heads)
            return hil_config_refuse(r, "per_layer_config", "differs in layers of one kind");
    }
    if (seen && seen != full)
        return hil_config_refuse(r, "per_layer_config", "lacks layers with full attention");
    v->head_dim = first.head_dim, v->kv_heads = first.kv_heads;
    return HIL_OK;
}

static hil_status read_sizes(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_varied_config *v = &c->varied;
    v->kv_heads = c->kv_heads;
    HIL_TRY(hil_config_bool(r, "attention_k_eq_v", &v->same_values));
    HIL_TRY(hil_config_size(r, "global_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &v->head_dim));
    if (v->same_values)
        HIL_TRY(hil_config_size(r, "num_global_key_value_heads", NULL, HIL_CONFIG_HEADS_MAX,
                                &v->kv_heads));
    if (json_object_get(r->object, "per_layer_config")) HIL_TRY(read_overrides(r));
    if (v->head_dim % 2 || c->heads % v->kv_heads || c->heads * v->head_dim > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "global_head_dim", "and its heads do not fit");
    return HIL_OK;
}

/* The heads of layers with full attention turn by other sizes than those that were checked. */
static hil_status check_full_rope(const hil_config_reader *r)
{
    hil_config sized = *r->config;
    const hil_config_reader full = {r->object, r->what, &sized};
    sized.head_dim = sized.varied.head_dim;
    return hil_config_check_rope(&full, &sized.rope);
}

static hil_status read_sharing(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_varied_config *v = &c->varied;
    HIL_TRY(hil_json_int(r->object, "num_kv_shared_layers", r->what, &v->reusing));
    HIL_TRY(hil_config_bool(r, "use_double_wide_mlp", &v->wide));
    if (v->reusing < 0 || v->reusing >= c->layers)
        return hil_config_refuse(r, "num_kv_shared_layers", "leaves no layer with keys");
    for (int64_t n = c->layers - v->reusing; n < c->layers; ++n)
        if (find_source(c, n) < 0)
            return hil_config_refuse(r, "num_kv_shared_layers",
                                     "leaves a kind of layers without keys");
    return HIL_OK;
}

static hil_status read_experts(const hil_config_reader *r)
{
    hil_mixture_config *m = &r->config->mixture;
    bool on = false;
    HIL_TRY(hil_config_bool(r, "enable_moe_block", &on));
    if (!on) return HIL_OK;
    HIL_TRY(hil_config_size(r, "num_experts", NULL, HIL_CONFIG_WIDTH_MAX, &m->experts));
    HIL_TRY(hil_config_size(r, "top_k_experts", NULL, m->experts, &m->chosen));
    HIL_TRY(hil_config_size(r, "moe_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX, &m->width));
    m->normalized = true;
    return hil_config_check_mixture(r);
}

static hil_status read_inputs(const hil_config_reader *r)
{
    hil_varied_config *v = &r->config->varied;
    HIL_TRY(hil_json_int(r->object, "hidden_size_per_layer_input", r->what, &v->input));
    HIL_TRY(hil_config_size(r, "vocab_size_per_layer_input", NULL, (int64_t)1 << 24, &v->inputs));
    if (v->input < 0 || v->input > HIL_CONFIG_WIDTH_MAX / r->config->layers)
        return hil_config_refuse(r, "hidden_size_per_layer_input", "is too large");
    if (v->input && v->inputs < r->config->vocab)
        return hil_config_refuse(r, "vocab_size_per_layer_input", "is below \"vocab_size\"");
    return HIL_OK;
}

/* The default part of a head is that of absent rope_parameters. */
static hil_status read_rope(const hil_config_reader *r)
{
    const json_t *all = json_object_get(r->object, "rope_parameters");
    if (json_is_object(json_object_get(all, "full_attention"))) r->config->rope.partial = 1;
    return hil_config_rope_by_type(r);
}

/* Only images see what follows them where use_bidirectional_attention is "vision". */
static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const char *both_ways = "vision";
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_refuse_flag(r, "attention_bias"));
    HIL_TRY(hil_json_string(r->object, "use_bidirectional_attention", r->what, &both_ways));
    if (strcmp(both_ways, "vision") != 0)
        return hil_config_refuse(r, "use_bidirectional_attention",
                                 "must be null: only causal attention is supported");
    HIL_TRY(hil_config_activation(r, "hidden_activation", 1u << HIL_GELU | 1u << HIL_GELU_TANH));
    if (json_is_number(json_object_get(r->object, "final_logit_softcapping")))
        HIL_TRY(hil_config_real(r, "final_logit_softcapping", 1e-6, 1e9, &c->logit_cap));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_between(c, 6);
    HIL_TRY(hil_config_layer_types(r));
    c->slides[(c->layers - 1) / 64] &= ~((uint64_t)1 << ((c->layers - 1) % 64));
    c->embedding_scale = sqrt((double)c->hidden);
    HIL_TRY(read_rope(r));
    HIL_TRY(read_sizes(r));
    HIL_TRY(check_full_rope(r));
    return read_sharing(r);
}

static hil_status read_gemma4(const hil_config_reader *r)
{
    HIL_TRY(read(r));
    HIL_TRY(read_experts(r));
    return read_inputs(r);
}

#define EXPERTS "experts.*."
static const hil_arch_stack stacks[] = {
    {"experts.gate_up_proj", EXPERTS "gate_proj.weight", 0, 2, false, HIL_FLAT_NOT, true},
    {"experts.gate_up_proj", EXPERTS "up_proj.weight", 1, 2, false, HIL_FLAT_NOT, true},
    {"experts.down_proj", EXPERTS "down_proj.weight", 0, 1, false, HIL_FLAT_NOT, true},
    {.tensor = NULL},
};

#define GEMMA4                                                                                     \
    .activation = HIL_GELU_TANH, .vocab = 262144, .heads = 8, .kv_heads = 4, .head_dim = 256,      \
    .rope = {.kind = HIL_ROPE_PROPORTIONAL, .theta = 1000000, .partial = 0.25}, .tied = true,      \
    .frozen_pad = true, .bos = 2, .eos = 1

const hil_arch hil_arch_gemma4 = {
    .name = "gemma4_text",
    .class_name = "Gemma4ForCausalLM",
    .defaults = &(const hil_config){GEMMA4, .max_positions = 131072, .window = 512,
                                    .varied = {.head_dim = 512, .input = 256, .inputs = 262144}},
    .names = &hil_arch_gemma_names,
    .mixture = &(const hil_mixture_names){.router = "router.proj",
                                          .gate = EXPERTS "gate_proj",
                                          .up = EXPERTS "up_proj",
                                          .down = EXPERTS "down_proj",
                                          .factors = "router.per_expert_scale"},
    .stacks = stacks,
    .varied = true,
    .read = read_gemma4,
    .build = build,
};

/* Of one file with images and sounds, without the second embedding. */
const hil_arch hil_arch_gemma4_unified = {
    .name = "gemma4_unified_text",
    .class_name = "Gemma4UnifiedForCausalLM",
    .defaults = &(const hil_config){GEMMA4, .max_positions = 262144, .window = 1024,
                                    .varied = {.head_dim = 512}},
    .names = &hil_arch_gemma_names,
    .varied = true,
    .read = read,
    .build = build,
};
