/* starcoder2.c - StarCoder2: LayerNorm, biases everywhere, an MLP without gates, and a window. */
#include "model/build.h"

static const hil_arch_names names = {
    HIL_ARCH_ENDS,    HIL_ARCH_ATTENTION,   .attention_norm = "input_layernorm",
    .up = "mlp.c_fc", .down = "mlp.c_proj", .mlp_norm = "post_attention_layernorm",
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "norm_epsilon"));
    HIL_TRY(hil_config_real(r, "residual_dropout", 0, 1, &c->dropout_residual));
    HIL_TRY(hil_config_real(r, "embedding_dropout", 0, 1, &c->dropout_embed));
    HIL_TRY(hil_config_bool(r, "use_bias", &c->mlp_bias));
    c->attention_bias = c->output_bias = c->mlp_bias;
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_GELU | 1u << HIL_GELU_TANH));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_from(c, 0);
    return hil_config_rope(r);
}

const hil_arch hil_arch_starcoder2 = {
    .name = "starcoder2",
    .class_name = "Starcoder2ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_GELU_TANH,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_bias = true,
                                    .norm_eps = 1e-5,
                                    .init_std = 0.018042,
                                    .mlp_bias = true,
                                    .tied = true,
                                    .frozen_pad = true,
                                    .kv_heads = 2,
                                    .max_positions = 4096,
                                    .bos = 50256,
                                    .eos = 50256,
                                    .pad = -1},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
