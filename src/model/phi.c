/* phi.c - Phi-1 and Phi-2: LayerNorm, attention and MLP side by side after one norm, biases
   everywhere, also on the logits, and heads of which a part turns. */
#include "model/build.h"

static const hil_arch_names names = {
    .embedding = "model.embed_tokens",
    .blocks = "model.layers.",
    .norm = "model.final_layernorm",
    .head = "lm_head",
    .attention_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .q_norm = "self_attn.q_layernorm",
    .k_norm = "self_attn.k_layernorm",
    .o = "self_attn.dense",
    .up = "mlp.fc1",
    .down = "mlp.fc2",
};

static hil_status read(const hil_config_reader *r)
{
    bool normalized = false;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "layer_norm_eps"));
    HIL_TRY(hil_config_dropouts(r));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_GELU | 1u << HIL_GELU_TANH));
    HIL_TRY(hil_config_bool(r, "qk_layernorm", &normalized));
    if (normalized) r->config->qk_norm = HIL_QK_NORM_HEAD;
    return hil_config_rope(r);
}

const hil_arch hil_arch_phi = {
    .name = "phi",
    .class_name = "PhiForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_GELU_TANH,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_bias = true,
                                    .norm_eps = 1e-5,
                                    .parallel = true,
                                    .shared_norm = true,
                                    .attention_bias = true,
                                    .output_bias = true,
                                    .mlp_bias = true,
                                    .head_bias = true,
                                    .frozen_pad = true,
                                    .max_positions = 2048,
                                    .rope = {.partial = 0.5},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
