/* afmoe.c - Arcee Trinity: attention whose result is gated, layers with windows that turn and
   others that do not, norms around every part, and experts that are chosen by sigmoids and a bias.
 */
#include "model/build.h"

#include <math.h>

static hil_status read_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t period = 4;
    HIL_TRY(hil_config_sliding_window(r, true));
    if (!c->window) return hil_config_refuse(r, "sliding_window", "is null: it must be a number");
    HIL_TRY(hil_config_size(r, "global_attn_every_n_layers", NULL, HIL_LAYERS_MAX, &period));
    hil_config_slide_between(c, period);
    HIL_TRY(hil_config_layer_types(r));
    for (int i = 0; i < HIL_LAYER_WORDS; ++i) c->still[i] = ~c->slides[i];
    return HIL_OK;
}

static hil_status read_experts(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t dense = 1;
    HIL_TRY(hil_config_shared_mixture(r, 2));
    HIL_TRY(hil_config_real(r, "route_scale", 1e-9, 1e9, &c->mixture.scale));
    HIL_TRY(hil_json_int(r->object, "num_dense_layers", r->what, &dense));
    for (int64_t n = 0; n < dense && n < c->layers; ++n)
        c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    return HIL_OK;
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool scaled = false;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_bool(r, "mup_enabled", &scaled));
    if (scaled) c->embedding_scale = sqrt((double)c->hidden);
    HIL_TRY(read_layers(r));
    return read_experts(r);
}

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    HIL_ARCH_MLP,
    .own_gate = "self_attn.gate_proj",
    .attention_norm = "input_layernorm",
    .attention_post_norm = "post_attention_layernorm",
    .mlp_norm = "pre_mlp_layernorm",
    .mlp_post_norm = "post_mlp_layernorm",
};

const hil_arch hil_arch_afmoe = {
    .name = "afmoe",
    .class_name = "AfmoeForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .frozen_pad = true,
                                    .head_dim = 128,
                                    .window = 1024,
                                    .max_positions = 16384,
                                    .mixture = {.experts = 64,
                                                .chosen = 6,
                                                .width = 1408,
                                                .sigmoid = true,
                                                .corrected = true,
                                                .normalized = true,
                                                .scale = 1},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &names,
    .mixture = &(const hil_mixture_names){.router = "mlp.router.gate",
                                          .gate = "mlp.experts.*.gate_proj",
                                          .up = "mlp.experts.*.up_proj",
                                          .down = "mlp.experts.*.down_proj",
                                          .correction = "mlp.expert_bias",
                                          .shared_gate = "mlp.shared_experts.gate_proj",
                                          .shared_up = "mlp.shared_experts.up_proj",
                                          .shared_down = "mlp.shared_experts.down_proj"},
    .stacks = hil_arch_usual_stacks,
    .fused = true,
    .read = read,
    .build = hil_build_decoder,
};
