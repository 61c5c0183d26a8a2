/* latent.c - multi-head latent attention (DeepSeek): a position's keys and values are products of
   one latent vector; what turns of a key is one head that all others share. */
#include "model/latent.h"

/* transformers takes this epsilon whatever the config says. */
#define LATENT_EPS 1e-6

/* See [Note: indexer]. transformers keeps the weights of its heads in fp32. */
static hil_status build_indexer(hil_model *model, const hil_config *c, int64_t n)
{
    const hil_indexer_config *x = &c->indexer;
    int64_t heads = x->heads, dim = x->head_dim, rank = c->latent.q_rank, d = c->hidden;
    double std = c->init_std;
    hil_param *unused;
    if (!x->chosen || x->shared[n / 64] >> (n % 64) & 1) return HIL_OK;
    const hil_build_row rows[] = {
        {"self_attn.indexer.wq_b", {HIL_FIXED_MATRIX, heads * dim, rank, std}, &unused, false},
        {"self_attn.indexer.wk", {HIL_FIXED_MATRIX, dim, d, std}, &unused, false},
        {"self_attn.indexer.k_norm", {HIL_FIXED_SCALE, 1, dim, 0}, &unused, false},
        {"self_attn.indexer.weights_proj", {HIL_FIXED, heads, d, std}, &unused, false},
    };
    const hil_build_row bias = {
        "self_attn.indexer.k_norm.bias", {HIL_FIXED, 1, dim, 0}, &unused, false};
    const hil_build_table table = {c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows};
    HIL_TRY(hil_build_params(model, &table));
    return hil_build_vector(model, c, n, &bias);
}

hil_status hil_latent_build(hil_model *model, const hil_config *c, int64_t n, const char *part,
                            hil_latent *out)
{
    *out = (hil_latent){.config = c};
    const hil_latent_config *l = &c->latent;
    if (!l->kv_rank || hil_config_linear(c, n)) return HIL_OK;
    int64_t d = c->hidden, q = c->heads * hil_config_key_dim(c);
    int64_t kv_down = l->kv_rank + c->head_dim, kv_up = c->heads * (l->still + l->value);
    bool whole = !l->q_rank, plain = !c->attention_bias;
    double std = c->init_std;
    const hil_build_row rows[] = {
        {"self_attn%.q_proj", {HIL_MATRIX, q, d, std}, &out->q, !whole},
        {"self_attn%.q_a_proj", {HIL_MATRIX, l->q_rank, d, std}, &out->q_down, whole},
        {"self_attn%.q_a_proj", {HIL_BIAS, 1, l->q_rank, 0}, &out->q_down_bias, whole || plain},
        {"self_attn%.q_a_layernorm", {HIL_SCALE, 1, l->q_rank, 0}, &out->q_norm, whole},
        {"self_attn%.q_b_proj", {HIL_MATRIX, q, l->q_rank, std}, &out->q_up, whole},
        {"self_attn%.kv_a_proj_with_mqa", {HIL_MATRIX, kv_down, d, std}, &out->kv_down, false},
        {"self_attn%.kv_a_proj_with_mqa", {HIL_BIAS, 1, kv_down, 0}, &out->kv_down_bias, plain},
        {"self_attn%.kv_a_layernorm", {HIL_SCALE, 1, l->kv_rank, 0}, &out->kv_norm, false},
        {"self_attn%.kv_b_proj", {HIL_MATRIX, kv_up, l->kv_rank, std}, &out->kv_up, false},
    };
    const hil_build_table table = {c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows};
    HIL_TRY(hil_build_part(model, &table, part));
    return build_indexer(model, c, n);
}

/* *x *= factor; 0: it stays. */
static hil_status scale(hil_tape *t, double factor, hil_value **x)
{
    return factor > 0 ? hil_scale(t, *x, factor, x) : HIL_OK;
}

static hil_status find_queries(hil_tape *t, const hil_latent *l, hil_value *x, hil_value **q)
{
    if (l->q) return hil_linear(t, x, l->q, NULL, q);
    HIL_TRY(hil_linear(t, x, l->q_down, l->q_down_bias, q));
    HIL_TRY(hil_rmsnorm(t, *q, l->q_norm, LATENT_EPS, q));
    HIL_TRY(hil_linear(t, *q, l->q_up, NULL, q));
    return scale(t, l->config->latent.q_scale, q);
}

static hil_status split_heads(hil_tape *t, hil_value *x, int64_t heads, hil_value **y)
{
    int64_t shape[4] = {hil_value_dim(x, 0), hil_value_dim(x, 1), heads, -1};
    return hil_reshape(t, x, 4, shape, y);
}

/* Turns the numbers of heads from `first` on; without `rope` none. */
static hil_status turn(hil_tape *t, const hil_rope_table *rope, int64_t first, hil_value **x)
{
    if (!rope) return HIL_OK;
    hil_rope_options options = rope->options;
    options.first = first;
    return hil_rope_with(t, *x, rope->frequency, &options, x);
}

hil_status hil_latent_project(hil_tape *t, const hil_latent *l, const hil_rope_table *rope,
                              hil_value *x, hil_value *qkv[3])
{
    const hil_config *c = l->config;
    hil_value *latent[2], *kv[2];
    HIL_TRY(hil_linear_share(t, x, 2, (hil_param *[]){l->q ? l->q : l->q_down, l->kv_down}));
    HIL_TRY(find_queries(t, l, x, &qkv[0]));
    HIL_TRY(split_heads(t, qkv[0], c->heads, &qkv[0]));
    HIL_TRY(turn(t, rope, c->latent.still, &qkv[0]));
    HIL_TRY(hil_linear(t, x, l->kv_down, l->kv_down_bias, &x));
    HIL_TRY(hil_split(t, x, 2, (int64_t[]){c->latent.kv_rank, c->head_dim}, latent));
    HIL_TRY(hil_rmsnorm(t, latent[0], l->kv_norm, LATENT_EPS, &latent[0]));
    HIL_TRY(scale(t, c->latent.kv_scale, &latent[0]));
    HIL_TRY(hil_linear(t, latent[0], l->kv_up, NULL, &x));
    HIL_TRY(split_heads(t, x, c->heads, &x));
    HIL_TRY(hil_split(t, x, 2, (int64_t[]){c->latent.still, c->latent.value}, kv));
    HIL_TRY(split_heads(t, latent[1], 1, &latent[1]));
    HIL_TRY(turn(t, rope, 0, &latent[1]));
    HIL_TRY(hil_join(t, 2, (hil_value *[]){kv[0], latent[1]}, &qkv[1]));
    qkv[2] = kv[1];
    return HIL_OK;
}
