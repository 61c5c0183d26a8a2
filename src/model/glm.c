/* glm.c - GLM-4 without experts: fused gate and up projections, biases on q, k and v, and heads of
   which half turns, neighbours together. The models of 0414 (glm4) have norms after each part, too.
 */
#include "model/build.h"

#define GLM_NAMES                                                                                  \
    HIL_ARCH_ENDS, HIL_ARCH_ATTENTION, .attention_norm = "input_layernorm",                        \
                                       .mlp_norm = "post_attention_layernorm",                     \
                                       .gate_up = "mlp.gate_up_proj", .down = "mlp.down_proj"

static hil_status read(const hil_config_reader *r)
{
    HIL_TRY(hil_config_read_usual(r));
    return hil_config_bool(r, "attention_bias", &r->config->attention_bias);
}

static const hil_config defaults = {
    .activation = HIL_SILU,
    .norm_eps = 1.5625e-7,
    .attention_bias = true,
    .interleaved = true,
    .frozen_pad = true,
    .kv_heads = 2,
    .head_dim = 128,
    .max_positions = 131072,
    .rope = {.partial = 0.5},
    .bos = -1,
    .eos = 151329,
    .pad = 151329,
};

const hil_arch hil_arch_glm = {
    .name = "glm",
    .class_name = "GlmForCausalLM",
    .defaults = &defaults,
    .names = &(const hil_arch_names){GLM_NAMES},
    .read = read,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_glm4 = {
    .name = "glm4",
    .class_name = "Glm4ForCausalLM",
    .defaults = &defaults,
    .names = &(const hil_arch_names){GLM_NAMES, .attention_post_norm = "post_self_attn_layernorm",
                                     .mlp_post_norm = "post_mlp_layernorm"},
    .read = read,
    .build = hil_build_decoder,
};
