/* llama.c - Llama: RMSNorm, rotary grouped attention, SwiGLU. */
#include "model/build.h"

/* The keys of Llama, which others have as well. */
hil_status hil_config_read_llama(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, r->config->arch == &hil_arch_llama));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_bool(r, "mlp_bias", &c->mlp_bias));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    return hil_config_rope(r);
}

const hil_arch hil_arch_llama = {
    .name = "llama",
    .class_name = "LlamaForCausalLM",
    .gguf = "llama",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 2048,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = hil_config_read_llama,
    .build = hil_build_decoder,
};
