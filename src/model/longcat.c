/* longcat.c - LongCat-Flash: a layer has two latent attentions, each with an MLP after it; a
   mixture beside the first MLP reads the same, and its result is added at the layer's end. Some
   experts have no weights: they give what they get. */
#include "model/latent.h"
#include "model/mixture.h"

#include "autograd/adapter.h"

#include <math.h>
#include <string.h>

/* An attention, and the MLP after it. */
typedef struct half {
    hil_param *attention_norm, *mlp_norm, *o, *o_bias, *gate, *up, *down;
    hil_latent latent;
} half;

typedef struct layer {
    const hil_config *config;
    const hil_rope_table *rope;
    hil_attention_options attention;
    half half[2];
    hil_mixture mixture;
} layer;

/* *x += attention. */
static hil_status attend(hil_tape *t, const layer *l, const half *p, hil_value **x)
{
    hil_value *h, *qkv[3];
    HIL_TRY(hil_rmsnorm(t, *x, p->attention_norm, l->config->norm_eps, &h));
    HIL_TRY(hil_latent_project(t, &p->latent, l->rope, h, qkv));
    HIL_TRY(hil_attention(t, qkv[0], qkv[1], qkv[2], &l->attention, &h));
    int64_t shape[3] = {hil_value_dim(*x, 0), hil_value_dim(*x, 1), -1};
    HIL_TRY(hil_reshape(t, h, 3, shape, &h));
    return hil_linear_add(t, h, p->o, p->o_bias, *x, x);
}

/* *x += the MLP of m. */
static hil_status feed(hil_tape *t, const half *p, hil_value *m, hil_value **x)
{
    const hil_linear_gates gates = {p->gate, p->up, NULL, NULL, p->down};
    HIL_TRY(hil_linear_swiglu(t, m, &gates, &m));
    return hil_linear_add(t, m, p->down, NULL, *x, x);
}

static hil_status block(hil_tape *t, void *state, const hil_values *in, hil_values *out)
{
    const layer *l = state;
    hil_value *x, *m, *shortcut = NULL;
    HIL_TRY(hil_values_get(in, "x", &x));
    for (int i = 0; i < 2; ++i) {
        const half *p = &l->half[i];
        HIL_TRY(attend(t, l, p, &x));
        HIL_TRY(hil_rmsnorm(t, x, p->mlp_norm, l->config->norm_eps, &m));
        if (i == 0) {
            hil_routing routing;
            HIL_TRY(hil_mixture_route(t, &l->mixture, m, in, out, &routing));
            HIL_TRY(hil_mixture_run(t, &l->mixture, m, &routing, NULL, &shortcut));
        }
        HIL_TRY(feed(t, p, m, &x));
    }
    HIL_TRY(hil_add(t, x, shortcut, &x));
    return hil_values_set(out, "x", x);
}

static hil_status add_half(hil_model *model, const hil_config *c, int64_t n, int i, half *p)
{
    const char *number = i ? ".1" : ".0";
    int64_t d = c->hidden, f = c->intermediate, o = c->heads * c->latent.value;
    double std = c->init_std;
    const hil_build_row rows[] = {
        {"input_layernorm%", {HIL_SCALE, 1, d, 0}, &p->attention_norm, false},
        {"self_attn%.o_proj", {HIL_MATRIX, d, o, std}, &p->o, false},
        {"self_attn%.o_proj", {HIL_BIAS, 1, d, 0}, &p->o_bias, !c->output_bias},
        {"post_attention_layernorm%", {HIL_SCALE, 1, d, 0}, &p->mlp_norm, false},
        {"mlps%.gate_proj", {HIL_MATRIX, f, d, std}, &p->gate, false},
        {"mlps%.up_proj", {HIL_MATRIX, f, d, std}, &p->up, false},
        {"mlps%.down_proj", {HIL_MATRIX, d, f, std}, &p->down, false},
    };
    HIL_TRY(hil_latent_build(model, c, n, number, &p->latent));
    const hil_build_table table = {c->arch->names->blocks, n, rows, sizeof rows / sizeof *rows};
    return hil_build_part(model, &table, number);
}

static hil_status add_blocks(hil_model *model, const hil_config *c)
{
    hil_rope_table *rope;
    HIL_TRY(hil_model_alloc(model, sizeof *rope, (void **)&rope));
    HIL_TRY(hil_build_rope(model, c, &c->rope, rope));
    for (int64_t n = 0; n < c->layers; ++n) {
        layer *l;
        HIL_TRY(hil_model_alloc(model, sizeof *l, (void **)&l));
        l->config = c;
        l->rope = rope;
        hil_attention_defaults(&l->attention);
        l->attention.scale = c->attention_scale;
        l->attention.dropout = c->dropout_attention;
        HIL_TRY(hil_mixture_build(model, c, n, &l->mixture));
        for (int i = 0; i < 2; ++i) HIL_TRY(add_half(model, c, n, i, &l->half[i]));
        HIL_TRY(hil_build_block(model, &(hil_build_table){.number = n}, block, l));
    }
    return HIL_OK;
}

static hil_status build(hil_model *model, const hil_config *config)
{
    return hil_build_around(model, config, add_blocks);
}

/* The number of layers: each is two in num_hidden_layers, which only older files have. */
static hil_status read_layers(const hil_config_reader *r, json_t *object)
{
    int64_t layers = 0, twice = 0;
    HIL_TRY(hil_json_int(object, "num_hidden_layers", r->what, &twice));
    if (twice % 2) return hil_config_refuse(r, "num_hidden_layers", "is odd");
    layers = twice / 2;
    HIL_TRY(hil_config_size(r, "num_layers", NULL, HIL_LAYERS_MAX, &layers));
    if (twice && layers != twice / 2)
        return hil_config_refuse(r, "num_hidden_layers", "is not twice \"num_layers\"");
    if (json_object_set_new(object, "num_hidden_layers", json_integer(layers)) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_MEMORY, "%s: out of memory", r->what);
}

static hil_status read_mixture(const hil_config_reader *r)
{
    hil_mixture_config *m = &r->config->mixture;
    const char *kind = "identity";
    bool normalized = false;
    HIL_TRY(hil_json_int(r->object, "zero_expert_num", r->what, &m->identities));
    if (json_is_null(json_object_get(r->object, "zero_expert_num"))) m->identities = 0;
    HIL_TRY(hil_json_string(r->object, "zero_expert_type", r->what, &kind));
    if (strcmp(kind, "identity") != 0)
        return hil_config_refuse(r, "zero_expert_type", "other than identity is not supported");
    HIL_TRY(hil_config_refuse_flag(r, "router_bias"));
    HIL_TRY(hil_config_bool(r, "norm_topk_prob", &normalized));
    if (normalized)
        return hil_config_refuse(r, "norm_topk_prob", "is true, which is not supported");
    HIL_TRY(hil_config_mixture(r, "n_routed_experts"));
    m->normalized = false;
    m->balance = 0; /* there is none in transformers */
    memset(m->dense, 0, sizeof m->dense);
    return hil_config_real(r, "routed_scaling_factor", 1e-9, 1e9, &m->scale);
}

/* Queries and latent vectors are scaled as if they had the hidden size. */
static hil_status read_scales(const hil_config_reader *r)
{
    static const char *const keys[] = {"mla_scale_q_lora", "mla_scale_kv_lora"};
    hil_config *c = r->config;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; ++i) {
        bool scaled = true;
        HIL_TRY(hil_config_bool(r, keys[i], &scaled));
        if (!scaled) return hil_config_refuse(r, keys[i], "is false, which is not supported");
    }
    if (!c->latent.q_rank) return hil_config_refuse(r, "q_lora_rank", "must be a number");
    c->latent.q_scale = sqrt((double)c->hidden / (double)c->latent.q_rank);
    c->latent.kv_scale = sqrt((double)c->hidden / (double)c->latent.kv_rank);
    return HIL_OK;
}

static hil_status read_renamed(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t all = 0;
    HIL_TRY(hil_config_latent(r));
    HIL_TRY(hil_config_latent_head(r, 64));
    HIL_TRY(hil_json_int(r->object, "qk_head_dim", r->what, &all));
    if (all && all != hil_config_key_dim(c))
        return hil_config_refuse(r, "qk_head_dim",
                                 "is not that of \"qk_nope_head_dim\" and \"qk_rope_head_dim\"");
    c->attentions = 2;
    HIL_TRY(read_scales(r));
    return read_mixture(r);
}

static hil_status read(const hil_config_reader *r)
{
    static const char *const names[][2] = {{"expert_ffn_hidden_size", "moe_intermediate_size"},
                                           {"ffn_hidden_size", "intermediate_size"},
                                           {"moe_topk", "num_experts_per_tok"},
                                           {"num_local_experts", "n_routed_experts"},
                                           {NULL}};
    json_t *object;
    HIL_TRY(hil_config_rename(r, names, &object));
    const hil_config_reader own = {object, r->what, r->config};
    hil_status status = read_layers(r, object);
    if (status == HIL_OK) status = read_renamed(&own);
    json_decref(object);
    return status;
}

const hil_arch hil_arch_longcat_flash = {
    .name = "longcat_flash",
    .class_name = "LongcatFlashForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .norm_eps = 1e-5,
                            .frozen_pad = true,
                            .heads = 64,
                            .head_dim = 64,
                            .max_positions = 131072,
                            .rope = {.theta = 10000000},
                            .latent = {.q_rank = 1536, .kv_rank = 512, .still = 128, .value = 128},
                            .mixture = {.experts = 512,
                                        .chosen = 12,
                                        .width = 2048,
                                        .identities = 256,
                                        .corrected = true,
                                        .scale = 6},
                            .bos = 1,
                            .eos = 2,
                            .pad = -1},
    .names = &(const hil_arch_names){HIL_ARCH_ENDS},
    .mixture = &(const hil_mixture_names){.router = "mlp.router.classifier",
                                          .correction = "mlp.router.e_score_correction_bias",
                                          .gate = "mlp.experts.*.gate_proj",
                                          .up = "mlp.experts.*.up_proj",
                                          .down = "mlp.experts.*.down_proj"},
    .fused = true,
    .read = read,
    .build = build,
};
