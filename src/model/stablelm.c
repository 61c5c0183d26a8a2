/* stablelm.c - StableLM: Llama with LayerNorm, and heads of which a part turns. That of 12B
   normalises heads, each with weights of its own. */
#include "model/build.h"

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_MLP,
    HIL_ARCH_PROJECTIONS,
    .attention_norm = "input_layernorm",
    .q_norm = "self_attn.q_layernorm.norms.*",
    .k_norm = "self_attn.k_layernorm.norms.*",
    .mlp_norm = "post_attention_layernorm",
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool normalized = false;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "layer_norm_eps"));
    HIL_TRY(hil_config_bool(r, "use_qkv_bias", &c->attention_bias));
    HIL_TRY(hil_config_bool(r, "use_parallel_residual", &c->parallel));
    c->shared_norm = c->parallel;
    HIL_TRY(hil_config_refuse_number(r, "hidden_dropout"));
    HIL_TRY(hil_config_bool(r, "qk_layernorm", &normalized));
    if (normalized) c->qk_norm = HIL_QK_NORM_OWN;
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    return hil_config_rope(r);
}

const hil_arch hil_arch_stablelm = {
    .name = "stablelm",
    .class_name = "StableLmForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_bias = true,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .kv_heads = 32,
                                    .max_positions = 4096,
                                    .rope = {.partial = 0.25},
                                    .bos = 0,
                                    .eos = 0,
                                    .pad = -1},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
