/* olmoe.c - OLMoE: Llama with norms of whole queries and keys, and a mixture of experts in every
   block. FlexOlmo has norms after each part instead of before, as OLMo 2. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_refuse_number(r, "clip_qkv"));
    c->mixture.width = c->intermediate;
    return hil_config_mixture(r, "num_experts");
}

const hil_arch hil_arch_olmoe = {
    .name = "olmoe",
    .class_name = "OlmoeForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .qk_norm = HIL_QK_NORM_WHOLE,
                                    .frozen_pad = true,
                                    .max_positions = 4096,
                                    .mixture = {.experts = 64, .chosen = 8, .balance = 0.01},
                                    .bos = -1,
                                    .eos = 50279,
                                    .pad = 1},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){HIL_ARCH_EXPERTS},
    .stacks = hil_arch_usual_stacks,
    .read = read,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_flex_olmo = {
    .name = "flex_olmo",
    .class_name = "FlexOlmoForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .qk_norm = HIL_QK_NORM_WHOLE,
                                    .frozen_pad = true,
                                    .max_positions = 4096,
                                    .rope = {.theta = 500000},
                                    .mixture = {.experts = 7, .chosen = 5, .balance = 0.01},
                                    .bos = -1,
                                    .eos = 100257,
                                    .pad = 100277},
    .names = &(const hil_arch_names){HIL_ARCH_ENDS, HIL_ARCH_ATTENTION,
                                     .attention_post_norm = "post_attention_layernorm",
                                     .mlp_post_norm = "post_feedforward_layernorm"},
    .mixture = &(const hil_mixture_names){HIL_ARCH_EXPERTS},
    .stacks = hil_arch_usual_stacks,
    .read = read,
    .build = hil_build_decoder,
};
