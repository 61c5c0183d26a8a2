/* gpt2.c - GPT-2: learned positions, LayerNorm, fused q/k/v, GELU. */
#include "model/build.h"

#include "base/fail.h"

#include <math.h>
#include <stdio.h>

typedef struct ends {
    hil_param *tokens, *positions, *norm_weight, *norm_bias, *head;
    double eps, dropout;
} ends;

typedef struct layer {
    hil_param *norm1, *norm1_bias, *qkv, *qkv_bias, *out, *out_bias;
    hil_param *norm2, *norm2_bias, *up, *up_bias, *down, *down_bias;
    int64_t heads;
    double eps, dropout;
    hil_gelu_kind gelu;
    hil_attention_options attention;
} layer;

static hil_status embed(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    (void)in;
    hil_value *x, *p;
    HIL_TRY(hil_embedding(t, hil_batch_tokens(t), e->tokens, &x));
    HIL_TRY(hil_embedding(t, hil_batch_positions(t), e->positions, &p));
    HIL_TRY(hil_add(t, x, p, &x));
    HIL_TRY(hil_dropout(t, x, e->dropout, &x));
    return hil_values_set(out, "x", x);
}

/* residual + dropout(linear(x)); fused where dropout is 0. */
static hil_status add_residual(hil_tape *t, const layer *l, hil_value *x, hil_param *const part[2],
                               hil_value *residual, hil_value **y)
{
    if (!(l->dropout > 0)) return hil_linear_add(t, x, part[0], part[1], residual, y);
    HIL_TRY(hil_linear(t, x, part[0], part[1], &x));
    HIL_TRY(hil_dropout(t, x, l->dropout, &x));
    return hil_add(t, residual, x, y);
}

/* residual + attention over x. */
static hil_status attend(hil_tape *t, const layer *l, hil_value *x, hil_value *residual,
                         hil_value **y)
{
    int64_t b = hil_value_dim(x, 0), n = hil_value_dim(x, 1);
    HIL_TRY(hil_linear(t, x, l->qkv, l->qkv_bias, y));
    HIL_TRY(hil_reshape(t, *y, 4, (int64_t[]){b, n, 3 * l->heads, -1}, y));
    HIL_TRY(hil_attention_packed(t, *y, &l->attention, y));
    HIL_TRY(hil_reshape(t, *y, 3, (int64_t[]){b, n, -1}, y));
    return add_residual(t, l, *y, (hil_param *[]){l->out, l->out_bias}, residual, y);
}

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    hil_value *x, *h;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_layernorm(t, x, l->norm1, l->norm1_bias, l->eps, &h));
    HIL_TRY(attend(t, l, h, x, &x));
    HIL_TRY(hil_layernorm(t, x, l->norm2, l->norm2_bias, l->eps, &h));
    HIL_TRY(hil_linear(t, h, l->up, l->up_bias, &h));
    HIL_TRY(hil_gelu(t, h, l->gelu, &h));
    HIL_TRY(add_residual(t, l, h, (hil_param *[]){l->down, l->down_bias}, x, &x));
    return hil_values_set(out, "x", x);
}

static hil_status head(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const ends *e = state;
    (void)out;
    hil_value *x;
    HIL_TRY(hil_values_get(in, "x", &x));
    HIL_TRY(hil_layernorm(t, x, e->norm_weight, e->norm_bias, e->eps, &x));
    return hil_head_loss(t, x, e->head);
}

static hil_status add_block(hil_model *model, const hil_config *c, int64_t n)
{
    layer *l;
    HIL_TRY(hil_model_alloc(model, sizeof *l, (void **)&l));
    *l = (layer){.heads = c->heads,
                 .eps = c->norm_eps,
                 .dropout = c->dropout_residual,
                 .gelu = c->activation == HIL_GELU ? HIL_GELU_EXACT : HIL_GELU_APPROXIMATE};
    hil_attention_defaults(&l->attention);
    l->attention.dropout = c->dropout_attention;
    if (c->scale_by_layer) l->attention.scale = 1 / (sqrt((double)c->head_dim) * (double)(n + 1));
    int64_t d = c->hidden, f = c->intermediate;
    double deep = c->init_std / sqrt(2 * (double)c->layers);
    const hil_build_row rows[] = {
        {"ln_1", {HIL_SCALE, 1, d, 0}, &l->norm1, false},
        {"ln_1", {HIL_BIAS, 1, d, 0}, &l->norm1_bias, false},
        {"attn.c_attn", {HIL_TRANSPOSED, 3 * d, d, c->init_std}, &l->qkv, false},
        {"attn.c_attn", {HIL_BIAS, 1, 3 * d, 0}, &l->qkv_bias, false},
        {"attn.c_proj", {HIL_TRANSPOSED, d, d, deep}, &l->out, false},
        {"attn.c_proj", {HIL_BIAS, 1, d, 0}, &l->out_bias, false},
        {"ln_2", {HIL_SCALE, 1, d, 0}, &l->norm2, false},
        {"ln_2", {HIL_BIAS, 1, d, 0}, &l->norm2_bias, false},
        {"mlp.c_fc", {HIL_TRANSPOSED, f, d, c->init_std}, &l->up, false},
        {"mlp.c_fc", {HIL_BIAS, 1, f, 0}, &l->up_bias, false},
        {"mlp.c_proj", {HIL_TRANSPOSED, d, f, deep}, &l->down, false},
        {"mlp.c_proj", {HIL_BIAS, 1, d, 0}, &l->down_bias, false},
    };
    const hil_build_table table = {"transformer.h.", n, rows, sizeof rows / sizeof *rows};
    return hil_build_block(model, &table, block, l);
}

static hil_status build(hil_model *model, const hil_config *c)
{
    ends *e;
    HIL_TRY(hil_model_alloc(model, sizeof *e, (void **)&e));
    e->eps = c->norm_eps;
    e->dropout = c->dropout_embed;
    const hil_param_form table = {HIL_MATRIX, c->vocab, c->hidden, c->init_std};
    const hil_param_form positions = {HIL_MATRIX, c->max_positions, c->hidden, c->init_std};
    const hil_param_form scale = {HIL_SCALE, 1, c->hidden, 0}, bias = {HIL_BIAS, 1, c->hidden, 0};
    HIL_TRY(hil_build_param(model, "transformer.wte", &table, &e->tokens));
    HIL_TRY(hil_build_param(model, "transformer.wpe", &positions, &e->positions));
    HIL_TRY(hil_model_segment(model, "embedding", embed, e));
    for (int64_t n = 0; n < c->layers; ++n) HIL_TRY(add_block(model, c, n));
    HIL_TRY(hil_build_param(model, "transformer.ln_f", &scale, &e->norm_weight));
    HIL_TRY(hil_build_param(model, "transformer.ln_f", &bias, &e->norm_bias));
    e->head = e->tokens;
    if (!c->tied) HIL_TRY(hil_build_param(model, "lm_head", &table, &e->head));
    return hil_model_segment(model, "head", head, e);
}

static hil_status read_sizes(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_size(r, "n_embd", "hidden_size", HIL_CONFIG_WIDTH_MAX, &c->hidden));
    HIL_TRY(hil_config_size(r, "n_layer", "num_hidden_layers", HIL_LAYERS_MAX, &c->layers));
    HIL_TRY(hil_config_size(r, "n_positions", "max_position_embeddings", HIL_CONFIG_POSITIONS_MAX,
                            &c->max_positions));
    HIL_TRY(hil_config_size(r, "n_head", "num_attention_heads", HIL_CONFIG_HEADS_MAX, &c->heads));
    if (c->hidden % c->heads != 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: %lld attention heads do not divide the hidden size of %lld", r->what,
                        (long long)c->heads, (long long)c->hidden);
    c->kv_heads = c->heads;
    c->head_dim = c->hidden / c->heads;
    c->intermediate = 4 * c->hidden;
    HIL_TRY(hil_config_size(r, "n_inner", NULL, 4 * HIL_CONFIG_WIDTH_MAX, &c->intermediate));
    return hil_config_check_sizes(r, c->max_positions);
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool scaled = true;
    HIL_TRY(hil_config_bool(r, "scale_attn_weights", &scaled));
    if (!scaled)
        return hil_config_refuse(r, "scale_attn_weights", "is false, which is not supported");
    HIL_TRY(read_sizes(r));
    HIL_TRY(hil_config_real(r, "layer_norm_epsilon", 1e-30, 1, &c->norm_eps));
    HIL_TRY(hil_config_real(r, "attn_pdrop", 0, 1, &c->dropout_attention));
    HIL_TRY(hil_config_dropouts(r));
    HIL_TRY(hil_config_bool(r, "scale_attn_by_inverse_layer_idx", &c->scale_by_layer));
    HIL_TRY(hil_config_bool(r, "tie_word_embeddings", &c->tied));
    return hil_config_activation(r, "activation_function", 1u << HIL_GELU | 1u << HIL_GELU_TANH);
}

const hil_arch hil_arch_gpt2 = {
    .name = "gpt2",
    .class_name = "GPT2LMHeadModel",
    .gguf = "gpt2",
    .defaults = &(const hil_config){.activation = HIL_GELU_TANH,
                                    .norm_eps = 1e-5,
                                    .tied = true,
                                    .attention_bias = true,
                                    .output_bias = true,
                                    .mlp_bias = true,
                                    .dropout_embed = 0.1,
                                    .dropout_residual = 0.1,
                                    .dropout_attention = 0.1,
                                    .bos = 50256,
                                    .eos = 50256,
                                    .pad = -1},
    .read = read,
    .build = build,
};
