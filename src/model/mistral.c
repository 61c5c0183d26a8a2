/* mistral.c - Mistral: Llama with a window in every layer. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_from(r->config, 0);
    return HIL_OK;
}

const hil_arch hil_arch_mistral = {
    .name = "mistral",
    .class_name = "MistralForCausalLM",
    .gguf = "llama",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 131072,
                                    .kv_heads = 8,
                                    .window = 4096,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};
