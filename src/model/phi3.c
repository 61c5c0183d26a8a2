/* phi3.c - Phi-3 and Phi-4: Llama with fused projections, and LongRoPE. */
#include "model/build.h"

static const hil_arch_names names = {
    HIL_ARCH_ENDS,           .attention_norm = "input_layernorm",    .qkv = "self_attn.qkv_proj",
    .o = "self_attn.o_proj", .mlp_norm = "post_attention_layernorm", .gate_up = "mlp.gate_up_proj",
    .down = "mlp.down_proj",
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_dropouts(r));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_config_rope(r));
    if (c->rope.kind == HIL_ROPE_YARN)
        return hil_config_refuse(r, "rope_scaling",
                                 "has type yarn; for phi3 longrope is supported");
    HIL_TRY(hil_config_sliding_window(r, json_object_get(r->object, "sliding_window")));
    hil_config_slide_from(c, 0);
    return HIL_OK;
}

const hil_arch hil_arch_phi3 = {
    .name = "phi3",
    .class_name = "Phi3ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .max_positions = 4096,
                                    .window = 4096,
                                    .rope = {.partial = 1},
                                    .frozen_pad = true,
                                    .bos = 1,
                                    .eos = 32000,
                                    .pad = 32000},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
