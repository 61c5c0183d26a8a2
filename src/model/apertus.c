/* apertus.c - Apertus: Llama with norms of queries and keys, and an MLP without gates whose
   activation, xIELU, has trained numbers. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool given = hil_config_has_rope(r);
    if (given) c->rope.kind = HIL_ROPE_DEFAULT;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_XIELU));
    HIL_TRY(hil_config_rope(r));
    if (!given) c->rope.theta = c->arch->defaults->rope.theta;
    return hil_config_attention_bias(r);
}

/* Buffers without dimensions. */
static const hil_arch_stack stacks[] = {
    {"mlp.act_fn.beta", "mlp.act_fn.beta", 0, 1, false, HIL_FLAT_NUMBER, true},
    {"mlp.act_fn.eps", "mlp.act_fn.eps", 0, 1, false, HIL_FLAT_NUMBER, true},
    {.tensor = NULL},
};

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    .attention_norm = "attention_layernorm",
    .mlp_norm = "feedforward_layernorm",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

const hil_arch hil_arch_apertus = {
    .name = "apertus",
    .class_name = "ApertusForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_XIELU,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .max_positions = 65536,
                                    .rope = {.kind = HIL_ROPE_LLAMA3,
                                             .theta = 12000000,
                                             .factor = 8,
                                             .original_positions = 8192,
                                             .low_freq = 1,
                                             .high_freq = 4},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = 3},
    .names = &names,
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
