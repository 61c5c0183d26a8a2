/* bailing.c - Ling 3.0: most layers have Kimi Delta Attention, whose decays have a floor, the
   others latent attention with a gate for each head; the experts are those of DeepSeek-V3. */
#include "model/build.h"

#include <string.h>

#define KERNEL_MAX 64

/* Heads are those of attention in most files, of `head_dim` numbers, which is else not read. */
static hil_status read_delta(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_delta_config *s = &c->delta;
    int64_t period = 6;
    bool floored = true;
    s->heads = c->heads;
    HIL_TRY(hil_config_size(r, "head_dim", NULL, HIL_CONFIG_HEADS_MAX, &s->key_dim));
    HIL_TRY(hil_config_size(r, "linear_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &s->key_dim));
    HIL_TRY(hil_config_size(r, "linear_num_heads", NULL, HIL_CONFIG_HEADS_MAX, &s->heads));
    HIL_TRY(hil_config_size(r, "short_conv_kernel_size", NULL, KERNEL_MAX, &s->kernel));
    HIL_TRY(hil_config_size(r, "linear_conv_kernel_dim", NULL, KERNEL_MAX, &s->kernel));
    if (s->key_dim < 2 || s->heads * s->key_dim > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "head_dim", "is no size of the heads of linear attention");
    s->key_heads = s->heads, s->value_dim = s->key_dim;
    HIL_TRY(hil_config_bool(r, "kda_safe_gate", &floored));
    HIL_TRY(hil_config_real(r, "kda_lower_bound", -1e9, 0, &s->floor));
    if (!floored) s->floor = 0;
    HIL_TRY(hil_config_size(r, "layer_group_size", NULL, HIL_LAYERS_MAX, &period));
    for (int64_t n = 0; n < c->layers; ++n)
        if ((n + 1) % period) s->layers[n / 64] |= (uint64_t)1 << (n % 64);
    return hil_config_layer_types(r);
}

static hil_status read_experts(const hil_config_reader *r)
{
    HIL_TRY(hil_config_experts(r, "num_local_experts", NULL));
    if (json_is_null(json_object_get(r->object, "norm_topk_prob")))
        r->config->mixture.normalized = false;
    HIL_TRY(hil_config_bool(r, "norm_topk_prob", &r->config->mixture.normalized));
    HIL_TRY(hil_config_grouped(r, 1, 2));
    return hil_config_mlp_types(r);
}

/* transformers never ties the head here. */
static hil_status read_renamed(const hil_config_reader *r)
{
    HIL_TRY(hil_config_refuse_flag(r, "tie_word_embeddings"));
    HIL_TRY(hil_config_latent(r));
    HIL_TRY(read_delta(r));
    return read_experts(r);
}

/* Queries have no latent vector, whatever the file says; and by default rotary embedding turns what
   qk_rope_head_dim says. */
static int drop_ignored(json_t *object)
{
    static const char part[] = "partial_rotary_factor";
    const json_t *rope = json_object_get(object, "rope_parameters");
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    if (!type) type = json_string_value(json_object_get(rope, "type"));
    int failed = json_object_set_new(object, "q_lora_rank", json_null());
    if (json_object_size(json_object_get(object, "rope_scaling"))) return failed;
    if (type && strcmp(type, "default") != 0) return failed;
    json_object_del(object, part);
    if (!json_object_get(rope, part)) return failed;
    json_t *copy = json_copy((json_t *)(uintptr_t)rope);
    json_object_del(copy, part);
    return failed | json_object_set_new(object, "rope_parameters", copy);
}

static hil_status read(const hil_config_reader *r)
{
    static const char *const names[][2] = {{"num_experts", "num_local_experts"},
                                           {"model_max_length", "max_position_embeddings"},
                                           {"num_expert_group", "n_group"},
                                           {"moe_renormalize", "norm_topk_prob"},
                                           {"num_shared_experts", "n_shared_experts"},
                                           {"num_experts_per_token", "num_experts_per_tok"},
                                           {NULL}};
    json_t *object;
    HIL_TRY(hil_config_rename(r, names, &object));
    const hil_config_reader own = {object, r->what, r->config};
    hil_status status = HIL_OK;
    if (drop_ignored(object) != 0) status = hil_fail(HIL_ERR_MEMORY, "%s: out of memory", r->what);
    if (status == HIL_OK) status = read_renamed(&own);
    json_decref(object);
    return status;
}

#define RENAMED(file, own)                                                                         \
    {                                                                                              \
        .tensor = (file), .param = (own), .parts = 1, .saved = true                                \
    }
#define MODULE(file, own) RENAMED("attention." file ".weight", "self_attn." own ".weight")
#define SAME(name) MODULE(name, name)
/* Files have other names than transformers in memory. */
static const hil_arch_stack stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight"),
    SAME("q_proj"),
    SAME("k_proj"),
    SAME("v_proj"),
    SAME("q_conv1d"),
    SAME("k_conv1d"),
    SAME("v_conv1d"),
    SAME("b_proj"),
    SAME("g_proj"),
    SAME("o_norm"),
    SAME("kv_a_proj_with_mqa"),
    SAME("kv_a_layernorm"),
    SAME("kv_b_proj"),
    MODULE("f_proj", "forget_gate.f_proj"),
    MODULE("dense", "o_proj"),
    RENAMED("attention.dense.bias", "self_attn.o_proj.bias"),
    RENAMED("attention.kv_a_proj_with_mqa.bias", "self_attn.kv_a_proj_with_mqa.bias"),
    RENAMED("attention.A_log", "self_attn.A_log"),
    RENAMED("attention.dt_bias", "self_attn.dt_bias"),
    {.tensor = NULL},
};

const hil_arch hil_arch_bailing_hybrid = {
    .name = "bailing_hybrid",
    .class_name = "BailingHybridForCausalLM",
    .defaults =
        &(const hil_config){
            .activation = HIL_SILU,
            .interleaved = true,
            .frozen_pad = true,
            .own_gate = HIL_OWN_GATE_HEAD,
            .heads = 32,
            .kv_heads = 32,
            .head_dim = 64,
            .intermediate = 6144,
            .max_positions = 262144,
            .rope = {.theta = 6e6},
            .latent = {.kv_rank = 512, .still = 128, .value = 128},
            .delta = {.channels = true, .direct = true, .key_dim = 128, .kernel = 4, .floor = -5},
            .mixture = {.experts = 512,
                        .chosen = 8,
                        .width = 768,
                        .normalized = true,
                        .sigmoid = true,
                        .pairs = true,
                        .corrected = true,
                        .groups = 8,
                        .groups_chosen = 4,
                        .scale = 2.5},
            .bos = -1,
            .eos = 156895,
            .pad = 156892},
    .names =
        &(const hil_arch_names){
            .embedding = "model.word_embeddings",
            .blocks = "model.layers.",
            .norm = "model.norm",
            .head = "lm_head",
            HIL_ARCH_MLP,
            .o = "self_attn.o_proj",
            .own_gate = "self_attn.g_proj",
            .attention_norm = "input_layernorm",
            .mlp_norm = "post_attention_layernorm",
        },
    .delta = &(const hil_delta_names){.out = "self_attn.o_proj"},
    .mixture =
        &(const hil_mixture_names){
            HIL_ARCH_EXPERTS,
            .correction = "mlp.gate.expert_bias",
            .shared_gate = "mlp.shared_experts.gate_proj",
            .shared_up = "mlp.shared_experts.up_proj",
            .shared_down = "mlp.shared_experts.down_proj",
        },
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
