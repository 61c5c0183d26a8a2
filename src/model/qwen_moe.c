/* qwen_moe.c - Qwen2-MoE and Qwen3-MoE: Qwen2 and Qwen3 with a mixture of experts in place of the
   MLP; in Qwen2-MoE all tokens have one more expert. Mellum 2: Qwen3-MoE whose layers with windows
   have a rotary embedding of their own. */
#include "model/build.h"

static hil_status read_qwen3_moe(const hil_config_reader *r)
{
    HIL_TRY(hil_arch_qwen3.read(r));
    return hil_config_mixture(r, "num_local_experts");
}

/* Every second of the first max_window_layers has the window. */
static hil_status read_qwen2_moe(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool use = false;
    int64_t last = 28;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_bool(r, "qkv_bias", &c->attention_bias));
    HIL_TRY(hil_config_bool(r, "use_sliding_window", &use));
    HIL_TRY(hil_json_int(r->object, "max_window_layers", r->what, &last));
    HIL_TRY(hil_config_sliding_window(r, use));
    hil_config_slide_between(c, 2);
    for (int64_t n = last > 0 ? last : 0; n < c->layers; ++n)
        c->slides[n / 64] &= ~((uint64_t)1 << (n % 64));
    HIL_TRY(hil_config_layer_types(r));
    HIL_TRY(hil_config_size(r, "shared_expert_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX,
                            &c->mixture.shared));
    return hil_config_mixture(r, "num_experts");
}

const hil_arch hil_arch_qwen2_moe = {
    .name = "qwen2_moe",
    .class_name = "Qwen2MoeForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 32768,
                                    .kv_heads = 16,
                                    .window = 4096,
                                    .attention_bias = true,
                                    .mixture = {.experts = 60,
                                                .chosen = 4,
                                                .width = 1408,
                                                .shared = 5632,
                                                .balance = 0.001},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .mixture =
        &(const hil_mixture_names){
            HIL_ARCH_EXPERTS,
            .shared_gate = "mlp.shared_expert.gate_proj",
            .shared_up = "mlp.shared_expert.up_proj",
            .shared_down = "mlp.shared_expert.down_proj",
            .shared = "mlp.shared_expert_gate",
        },
    .stacks = hil_arch_usual_stacks,
    .read = read_qwen2_moe,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_qwen3_moe = {
    .name = "qwen3_moe",
    .class_name = "Qwen3MoeForCausalLM",
    .defaults = &(
        const hil_config){.activation = HIL_SILU,
                          .frozen_pad = true,
                          .max_positions = 32768,
                          .kv_heads = 4,
                          .window = 4096,
                          .qk_norm = HIL_QK_NORM_HEAD,
                          .mixture = {.experts = 128, .chosen = 8, .width = 768, .balance = 0.001},
                          .bos = -1,
                          .eos = -1,
                          .pad = -1},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){HIL_ARCH_EXPERTS},
    .stacks = hil_arch_usual_stacks,
    .fused = true,
    .read = read_qwen3_moe,
    .build = hil_build_decoder,
};

/* transformers knows no rope_theta beside rope_parameters here. */
static hil_status read_mellum(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool given = json_is_object(json_object_get(r->object, "rope_parameters"));
    HIL_TRY(hil_config_refuse_number(r, "rope_theta"));
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    if (given) c->rope.theta = 10000;
    HIL_TRY(hil_config_rope_by_type(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    HIL_TRY(hil_config_layer_types(r));
    HIL_TRY(hil_config_mixture(r, "num_local_experts"));
    return hil_config_mlp_types(r);
}

const hil_arch hil_arch_mellum = {
    .name = "mellum",
    .class_name = "MellumForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 131072,
                                    .kv_heads = 4,
                                    .head_dim = 128,
                                    .window = 1024,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .rope = {.theta = 500000},
                                    .mixture = {.experts = 64,
                                                .chosen = 8,
                                                .width = 896,
                                                .normalized = true,
                                                .balance = 0.001},
                                    .pad = -1,
                                    .bos = -1,
                                    .eos = -1},
    .read = read_mellum,
    .build = hil_build_decoder,
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){HIL_ARCH_EXPERTS},
    .stacks = hil_arch_usual_stacks,
    .fused = true,
};
