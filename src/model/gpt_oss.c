/* gpt_oss.c - gpt-oss: every second layer has a window, attention has sinks, and experts are
   clamped gated units with biases, which files hold transposed and stacked. */
#include "model/build.h"

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .sinks = "self_attn.sinks",
};

#define STACK "mlp.experts."
static const hil_arch_stack stacks[] = {
    {STACK "gate_up_proj", STACK "*.gate_proj.weight", 0, 2, true, HIL_FLAT_NOT, true},
    {STACK "gate_up_proj", STACK "*.up_proj.weight", 1, 2, true, HIL_FLAT_NOT, true},
    {STACK "down_proj", STACK "*.down_proj.weight", 0, 1, false, HIL_FLAT_NOT, true},
    {STACK "gate_up_proj_bias", STACK "gate_proj.bias", 0, 2, true, HIL_FLAT_EXPERTS, true},
    {STACK "gate_up_proj_bias", STACK "up_proj.bias", 1, 2, true, HIL_FLAT_EXPERTS, true},
    {STACK "down_proj_bias", STACK "down_proj.bias", 0, 1, false, HIL_FLAT_EXPERTS, true},
    {.tensor = NULL},
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_between(c, 2);
    HIL_TRY(hil_config_layer_types(r));
    HIL_TRY(hil_config_real(r, "swiglu_alpha", 1e-6, 1e6, &c->mixture.alpha));
    HIL_TRY(hil_config_real(r, "swiglu_limit", 1e-6, 1e6, &c->mixture.limit));
    c->mixture.width = c->intermediate;
    return hil_config_mixture(r, "num_local_experts");
}

const hil_arch hil_arch_gpt_oss = {
    .name = "gpt_oss",
    .class_name = "GptOssForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .attention_bias = true,
                                    .output_bias = true,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .head_dim = 64,
                                    .max_positions = 131072,
                                    .window = 128,
                                    .rope = {.theta = 150000},
                                    .mixture = {.experts = 128,
                                                .chosen = 4,
                                                .alpha = 1.702,
                                                .limit = 7,
                                                .biased = true,
                                                .transposed = true,
                                                .normalized = true,
                                                .balance = 0.001},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &names,
    .mixture = &(const hil_mixture_names){.router = "mlp.router",
                                          .gate = STACK "*.gate_proj",
                                          .up = STACK "*.up_proj",
                                          .down = STACK "*.down_proj",
                                          .gate_bias = STACK "gate_proj",
                                          .up_bias = STACK "up_proj",
                                          .down_bias = STACK "down_proj"},
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
