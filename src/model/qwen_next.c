/* qwen_next.c - Qwen3-Next and Qwen3.5: most layers have linear attention by the gated delta rule,
   the others full attention whose result is gated; mixtures with one more expert for all tokens. */
#include "model/build.h"

#include <string.h>

#define KERNEL_MAX 64

hil_status hil_config_delta_sizes(const hil_config_reader *r)
{
    hil_delta_config *s = &r->config->delta;
    HIL_TRY(hil_config_size(r, "linear_num_key_heads", NULL, HIL_CONFIG_HEADS_MAX, &s->key_heads));
    HIL_TRY(hil_config_size(r, "linear_num_value_heads", NULL, HIL_CONFIG_HEADS_MAX, &s->heads));
    HIL_TRY(hil_config_size(r, "linear_key_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &s->key_dim));
    HIL_TRY(hil_config_size(r, "linear_value_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &s->value_dim));
    HIL_TRY(hil_config_size(r, "linear_conv_kernel_dim", NULL, KERNEL_MAX, &s->kernel));
    if (s->heads % s->key_heads)
        return hil_config_refuse(r, "linear_num_key_heads",
                                 "does not divide \"linear_num_value_heads\"");
    if (s->key_heads * s->key_dim > HIL_CONFIG_WIDTH_MAX ||
        s->heads * s->value_dim > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "linear_key_head_dim", "and its heads are too large");
    return HIL_OK;
}

/* linear_*, and which layers have it: all but every full_attention_interval-th, or layer_types. */
static hil_status read_delta(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t period = 4;
    HIL_TRY(hil_config_delta_sizes(r));
    HIL_TRY(hil_config_size(r, "full_attention_interval", NULL, HIL_LAYERS_MAX, &period));
    for (int64_t n = 0; n < c->layers; ++n)
        if ((n + 1) % period) c->delta.layers[n / 64] |= (uint64_t)1 << (n % 64);
    return hil_config_layer_types(r);
}

/* transformers gates attention always, whatever attn_output_gate says. */
static hil_status read_qwen3_5(const hil_config_reader *r)
{
    bool gated = true;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_bool(r, "attn_output_gate", &gated));
    if (!gated) return hil_config_refuse(r, "attn_output_gate", "is false, which is not supported");
    return read_delta(r);
}

static hil_status read_mixture(const hil_config_reader *r)
{
    HIL_TRY(hil_config_size(r, "shared_expert_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX,
                            &r->config->mixture.shared));
    return hil_config_mixture(r, "num_experts");
}

static hil_status read_qwen3_next(const hil_config_reader *r)
{
    HIL_TRY(read_qwen3_5(r));
    return read_mixture(r);
}

/* All layers have experts, whose weights add up to 1: other keys say nothing in transformers. */
static hil_status read_qwen3_5_moe(const hil_config_reader *r)
{
    hil_mixture_config *m = &r->config->mixture;
    HIL_TRY(read_qwen3_next(r));
    memset(m->dense, 0, sizeof m->dense);
    m->normalized = true;
    return HIL_OK;
}

#define USUAL                                                                                      \
    .activation = HIL_SILU, .norm = HIL_NORM_RMS_PLUS, .qk_norm = HIL_QK_NORM_HEAD, .gated = true, \
    .frozen_pad = true, .max_positions = 32768, .heads = 16, .head_dim = 256,                      \
    .rope = {.partial = 0.25},                                                                     \
    .delta = {.key_heads = 16, .key_dim = 128, .heads = 32, .value_dim = 128, .kernel = 4},        \
    .bos = -1, .eos = -1, .pad = -1
#define SHARED_EXPERT                                                                              \
    .mixture =                                                                                     \
        &(const hil_mixture_names){                                                                \
            HIL_ARCH_EXPERTS,                                                                      \
            .shared_gate = "mlp.shared_expert.gate_proj",                                          \
            .shared_up = "mlp.shared_expert.up_proj",                                              \
            .shared_down = "mlp.shared_expert.down_proj",                                          \
            .shared = "mlp.shared_expert_gate",                                                    \
        },                                                                                         \
    .stacks = hil_arch_usual_stacks
#define DELTA_NET                                                                                  \
    .kernel = "linear_attn.conv1d", .rate = "linear_attn.A_log", .bias = "linear_attn.dt_bias",    \
    .norm = "linear_attn.norm", .out = "linear_attn.out_proj"

static const hil_delta_names apart = {
    DELTA_NET,
    .qkv = "linear_attn.in_proj_qkv",
    .z = "linear_attn.in_proj_z",
    .b = "linear_attn.in_proj_b",
    .a = "linear_attn.in_proj_a",
};

const hil_arch hil_arch_qwen3_next = {
    .name = "qwen3_next",
    .class_name = "Qwen3NextForCausalLM",
    .defaults = &(const hil_config){USUAL, .kv_heads = 2, .intermediate = 5632,
                                    .mixture = {.experts = 512,
                                                .chosen = 10,
                                                .width = 512,
                                                .shared = 512,
                                                .normalized = true,
                                                .balance = 0.001}},
    .names = &hil_arch_usual_names,
    SHARED_EXPERT,
    .fused = true,
    .delta = &(const hil_delta_names){DELTA_NET, .qkvz = "linear_attn.in_proj_qkvz",
                                      .ba = "linear_attn.in_proj_ba"},
    .read = read_qwen3_next,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_qwen3_5 = {
    .name = "qwen3_5_text",
    .class_name = "Qwen3_5ForCausalLM",
    .defaults = &(const hil_config){USUAL, .kv_heads = 4, .intermediate = 12288},
    .names = &hil_arch_usual_names,
    .delta = &apart,
    .wrapped = true,
    .read = read_qwen3_5,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_qwen3_5_moe = {
    .name = "qwen3_5_moe_text",
    .class_name = "Qwen3_5MoeForCausalLM",
    .defaults = &(const hil_config){USUAL, .kv_heads = 2, .intermediate = 512,
                                    .mixture = {.experts = 256,
                                                .chosen = 8,
                                                .width = 512,
                                                .shared = 512,
                                                .balance = 0.001}},
    .names = &hil_arch_usual_names,
    SHARED_EXPERT,
    .delta = &apart,
    .wrapped = true,
    .read = read_qwen3_5_moe,
    .build = hil_build_decoder,
};
