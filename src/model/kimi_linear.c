/* kimi_linear.c - Kimi Linear: most layers have Kimi Delta Attention, the others the latent
   attention of DeepSeek-V3 without rotary embedding; the experts are those of DeepSeek-V3. */
#include "model/build.h"

#include <math.h>
#include <string.h>

#define KERNEL_MAX 64

/* Layers that a list names, the first as 1. */
static hil_status read_list(const hil_config_reader *r, const char *key, uint64_t *layers)
{
    const json_t *list = json_object_get(r->object, key);
    for (size_t i = 0; i < json_array_size(list); ++i) {
        int64_t n = json_integer_value(json_array_get(list, i));
        if (n < 1 || n > r->config->layers)
            return hil_config_refuse(r, key, "names a layer that does not exist");
        layers[(n - 1) / 64] |= (uint64_t)1 << ((n - 1) % 64);
    }
    return HIL_OK;
}

/* linear_attn_config, which older files have. */
static hil_status read_inner(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_delta_config *s = &c->delta;
    const json_t *inner = json_object_get(r->object, "linear_attn_config");
    const hil_config_reader own = {inner, r->what, c};
    uint64_t full[HIL_LAYER_WORDS] = {0}, linear[HIL_LAYER_WORDS] = {0};
    if (!inner) return HIL_OK;
    if (!json_is_object(inner))
        return hil_config_refuse(r, "linear_attn_config", "must be an object");
    HIL_TRY(hil_config_size(&own, "head_dim", NULL, HIL_CONFIG_HEADS_MAX, &s->key_dim));
    HIL_TRY(hil_config_size(&own, "num_heads", NULL, HIL_CONFIG_HEADS_MAX, &s->heads));
    HIL_TRY(hil_config_size(&own, "short_conv_kernel_size", NULL, KERNEL_MAX, &s->kernel));
    if (!json_is_array(json_object_get(inner, "full_attn_layers")) ||
        !json_is_array(json_object_get(inner, "kda_layers")))
        return HIL_OK;
    HIL_TRY(read_list(&own, "full_attn_layers", full));
    HIL_TRY(read_list(&own, "kda_layers", linear));
    for (int64_t n = 0; n < c->layers; ++n)
        if (!((full[n / 64] ^ linear[n / 64]) >> (n % 64) & 1))
            return hil_config_refuse(&own, "kda_layers",
                                     "and \"full_attn_layers\" do not name every layer once");
    memcpy(s->layers, linear, sizeof linear);
    return HIL_OK;
}

static hil_status read_delta(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_delta_config *s = &c->delta;
    HIL_TRY(hil_config_size(r, "linear_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &s->key_dim));
    HIL_TRY(hil_config_size(r, "linear_num_heads", NULL, HIL_CONFIG_HEADS_MAX, &s->heads));
    HIL_TRY(hil_config_size(r, "linear_conv_kernel_dim", NULL, KERNEL_MAX, &s->kernel));
    for (int64_t n = 0; n < c->layers; ++n)
        if (n % 4 || !n) s->layers[n / 64] |= (uint64_t)1 << (n % 64);
    HIL_TRY(read_inner(r));
    s->key_heads = s->heads, s->value_dim = s->key_dim;
    if (s->key_dim < 2) return hil_config_refuse(r, "linear_head_dim", "must be 2 or more");
    if (s->heads * s->key_dim > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "linear_head_dim", "and its heads are too large");
    return hil_config_layer_types(r);
}

static hil_status set_absent(const hil_config_reader *r, json_t *object)
{
    const char *key = "first_k_dense_replace";
    int failed = 0;
    if (json_is_null(json_object_get(object, key)))
        return hil_config_refuse(r, key, "is null: it must be a number");
    if (!json_object_get(object, key)) failed |= json_object_set_new(object, key, json_integer(1));
    if (!json_object_get(object, "q_lora_rank"))
        failed |= json_object_set_new(object, "q_lora_rank", json_null());
    return failed ? hil_fail(HIL_ERR_MEMORY, "%s: out of memory", r->what) : HIL_OK;
}

/* transformers never ties the head here, and chooses by sigmoids whatever the file says. */
static hil_status read_renamed(const hil_config_reader *r)
{
    const char *score = "sigmoid";
    HIL_TRY(hil_config_refuse_flag(r, "tie_word_embeddings"));
    HIL_TRY(hil_json_string(r->object, "moe_router_activation_func", r->what, &score));
    if (strcmp(score, "sigmoid") != 0)
        return hil_config_refuse(r, "moe_router_activation_func",
                                 "other than sigmoid is not known");
    if (json_is_null(json_object_get(r->object, "norm_topk_prob")))
        r->config->mixture.normalized = false;
    HIL_TRY(hil_arch_deepseek_v3.read(r));
    r->config->attention_scale = 1 / sqrt((double)hil_config_key_dim(r->config));
    memset(r->config->still, 0xff, sizeof r->config->still);
    HIL_TRY(hil_config_mlp_types(r));
    return read_delta(r);
}

static hil_status read(const hil_config_reader *r)
{
    static const char *const names[][2] = {{"model_max_length", "max_position_embeddings"},
                                           {"moe_renormalize", "norm_topk_prob"},
                                           {"num_expert_group", "n_group"},
                                           {"num_experts", "n_routed_experts"},
                                           {"num_local_experts", "n_routed_experts"},
                                           {"num_experts_per_token", "num_experts_per_tok"},
                                           {"num_shared_experts", "n_shared_experts"},
                                           {NULL}};
    json_t *object;
    HIL_TRY(hil_config_rename(r, names, &object));
    const hil_config_reader own = {object, r->what, r->config};
    hil_status status = set_absent(r, object);
    if (status == HIL_OK) status = read_renamed(&own);
    json_decref(object);
    return status;
}

#define MODULE(own, name)                                                                          \
    {                                                                                              \
        .tensor = own ".weight", .param = name ".weight", .parts = 1, .saved = true                \
    }
#define SHARED "shared_experts."
static const hil_arch_stack stacks[] = {
    MODULE("self_attn.f_a_proj", "self_attn.forget_gate.f_a_proj"),
    MODULE("self_attn.f_b_proj", "self_attn.forget_gate.f_b_proj"),
    MODULE("block_sparse_moe." SHARED "gate_proj", "mlp." SHARED "gate_proj"),
    MODULE("block_sparse_moe." SHARED "up_proj", "mlp." SHARED "up_proj"),
    MODULE("block_sparse_moe." SHARED "down_proj", "mlp." SHARED "down_proj"),
    {.tensor = "self_attn.A_log",
     .param = "self_attn.A_log",
     .parts = 1,
     .flat = HIL_FLAT_HEADS,
     .saved = true},
    /* What transformers writes. */
    {.tensor = "block_sparse_moe.gate_proj.weight", .param = "mlp.gate_proj.weight", .parts = 1},
    {.tensor = "block_sparse_moe.up_proj.weight", .param = "mlp.up_proj.weight", .parts = 1},
    {.tensor = "block_sparse_moe.down_proj.weight", .param = "mlp.down_proj.weight", .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_kimi_linear = {
    .name = "kimi_linear",
    .class_name = "KimiLinearForCausalLM",
    .defaults =
        &(const hil_config){
            .activation = HIL_SILU,
            .norm_eps = 1e-5,
            .frozen_pad = true,
            .kv_heads = 32,
            .heads = 32,
            .head_dim = 64,
            .intermediate = 9216,
            .max_positions = 1048576,
            .latent = {.kv_rank = 512, .still = 128, .value = 128},
            .delta = {.channels = true, .heads = 32, .key_heads = 32, .key_dim = 128, .kernel = 4},
            .mixture = {HIL_ARCH_SIGMOIDS, .experts = 256, .chosen = 8, .width = 1024,
                        .normalized = true, .scale = 2.446},
            .bos = 163584,
            .eos = 163586,
            .pad = 163839},
    .names =
        &(const hil_arch_names){
            HIL_ARCH_ENDS,
            HIL_ARCH_MLP,
            .o = "self_attn.o_proj",
            .mlp_norm = "post_attention_layernorm",
            .attention_norm = "input_layernorm",
        },
    .delta = &(const hil_delta_names){.out = "self_attn.o_proj"},
    .mixture =
        &(const hil_mixture_names){
            HIL_ARCH_BLOCK_SPARSE, .correction = "block_sparse_moe.gate.e_score_correction_bias",
            .shared_gate = "mlp." SHARED "gate_proj", .shared_up = "mlp." SHARED "up_proj",
            .shared_down = "mlp." SHARED "down_proj"},
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
