/* mistral.c - Mistral: Llama with a window in every layer. Ministral has it in some;
   Ministral 3 has YaRN, and queries that grow with their position. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_from(r->config, 0);
    return HIL_OK;
}

static hil_status read_ministral(const hil_config_reader *r)
{
    HIL_TRY(read(r));
    return hil_config_layer_types(r);
}

hil_status hil_config_growing(const hil_config_reader *r,
                              hil_status (*keys)(const hil_config_reader *))
{
    bool given = hil_config_has_rope(r);
    hil_rope_config *rope = &r->config->rope;
    if (given) rope->theta = 10000;
    HIL_TRY(keys(r));
    if (!given) {
        rope->theta = r->config->arch->defaults->rope.theta;
        return HIL_OK;
    }
    rope->growth = 0;
    HIL_TRY(hil_config_rope_real(r, "llama_4_scaling_beta", &rope->growth));
    if (rope->growth == 0 || rope->kind == HIL_ROPE_YARN) return HIL_OK;
    return hil_config_refuse(r, "llama_4_scaling_beta", "needs the type yarn");
}

static hil_status read_ministral3(const hil_config_reader *r)
{
    return hil_config_growing(r, read);
}

static const hil_config defaults = {.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 131072,
                                    .kv_heads = 8,
                                    .window = 4096,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1};

const hil_arch hil_arch_mistral = {
    .name = "mistral",
    .class_name = "MistralForCausalLM",
    .gguf = "llama",
    .defaults = &defaults,
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_ministral = {
    .name = "ministral",
    .class_name = "MinistralForCausalLM",
    .defaults = &defaults,
    .names = &hil_arch_usual_names,
    .read = read_ministral,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_ministral3 = {
    .name = "ministral3",
    .class_name = "Ministral3ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .max_positions = 262144,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .rope = {HIL_ARCH_GROWING, .theta = 1e6, .factor = 16,
                                             .original_positions = 16384},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = 11},
    .names = &hil_arch_usual_names,
    .read = read_ministral3,
    .build = hil_build_decoder,
};
