/* olmoe.c - OLMoE: Llama with norms of whole queries and keys, and a mixture of experts in every
   block. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double clip = 0;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(hil_config_real(r, "clip_qkv", 0, 1e9, &clip));
    if (clip > 0) return hil_config_refuse(r, "clip_qkv", "is not supported; it must be null");
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
