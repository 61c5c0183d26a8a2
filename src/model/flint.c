/* flint.c - Flint: sinks, layers with windows that turn and others that do not, and experts that
   are chosen by their sigmoids beside one that all tokens have. */
#include "model/build.h"

/* Where layer_types is absent: all but the first two, every fourth and the last have the window. */
static void set_layers(hil_config *c)
{
    for (int64_t n = 2; n + 1 < c->layers; ++n)
        if (n % 4 != 1) c->slides[n / 64] |= (uint64_t)1 << (n % 64);
}

/* transformers takes the auxiliary loss from a softmax of the scores here. */
static hil_status read_flint(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *dense = json_object_get(r->object, "mlp_only_layers");
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    if (!c->window) return hil_config_refuse(r, "sliding_window", "is null: it must be a number");
    set_layers(c);
    HIL_TRY(hil_config_layer_types(r));
    for (int i = 0; i < HIL_LAYER_WORDS; ++i) c->still[i] = ~c->slides[i];
    HIL_TRY(hil_config_refuse_flag(r, "output_router_logits"));
    HIL_TRY(hil_config_mixture(r, "num_experts"));
    if (!dense || json_is_null(dense)) c->mixture.dense[0] |= 3;
    return hil_config_size(r, "shared_expert_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX,
                           &c->mixture.shared);
}

#define USUAL                                                                                      \
    .activation = HIL_SILU, .frozen_pad = true, .kv_heads = 4, .head_dim = 128,                    \
    .max_positions = 262144, .window = 513, .qk_norm = HIL_QK_NORM_HEAD, .bos = -1, .eos = -1,     \
    .pad = -1
/* Experts under the names of transformers 5 in memory. */
#define EXPERTS                                                                                    \
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",                              \
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight")

/* In memory transformers calls the sinks otherwise. */
static const hil_arch_stack flint_stacks[] = {
    EXPERTS,
    {.tensor = "self_attn.sinks", .param = "self_attn.softmax_offset", .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_flint = {
    .name = "flint",
    .class_name = "FlintForCausalLM",
    .defaults = &(const hil_config){USUAL, .intermediate = 6144, .heads = 32,
                                    .mixture = {.experts = 256,
                                                .chosen = 6,
                                                .width = 512,
                                                .shared = 1024,
                                                .sigmoid = true,
                                                .normalized = true}},
    .names =
        &(const hil_arch_names){
            HIL_ARCH_ENDS,
            HIL_ARCH_ATTENTION,
            HIL_ARCH_MLP,
            .attention_norm = "input_layernorm",
            .sinks = "self_attn.softmax_offset",
            .mlp_norm = "post_attention_layernorm",
        },
    .mixture =
        &(const hil_mixture_names){
            .shared_down = "mlp.shared_expert.down_proj",
            .shared_gate = "mlp.shared_expert.gate_proj",
            .shared_up = "mlp.shared_expert.up_proj",
            HIL_ARCH_EXPERTS,
        },
    .stacks = flint_stacks,
    .read = read_flint,
    .build = hil_build_decoder,
};

static hil_status read_kolibri(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_refuse_flag(r, "attention_bias"));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_between(c, 5);
    HIL_TRY(hil_config_layer_types(r));
    if (!c->window && !json_is_array(json_object_get(r->object, "layer_types")))
        return hil_config_refuse(r, "sliding_window", "is null: it must be a number");
    for (int i = 0; c->window && i < HIL_LAYER_WORDS; ++i) c->still[i] = ~c->slides[i];
    HIL_TRY(hil_config_refuse_flag(r, "output_router_logits"));
    HIL_TRY(hil_config_mixture(r, "num_local_experts"));
    return hil_config_size(r, "shared_expert_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX,
                           &c->mixture.shared);
}

/* In memory transformers has other names. */
static const hil_arch_stack kolibri_stacks[] = {
    EXPERTS,
    {.tensor = "mlp.gate.e_score_correction_bias", .param = "moe.router.expert_bias", .parts = 1},
    {.tensor = "post_self_attn_layernorm.weight", .param = "post_attn_norm.weight", .parts = 1},
    {.tensor = "post_mlp_layernorm.weight", .param = "post_ffn_norm.weight", .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_kolibri1 = {
    .name = "kolibri1",
    .class_name = "Kolibri1ForCausalLM",
    .defaults = &(const hil_config){USUAL, .intermediate = 1, /* there is no MLP */
                                    .heads = 48,
                                    .mixture = {.experts = 384,
                                                .chosen = 6,
                                                .width = 512,
                                                .shared = 512,
                                                .sigmoid = true,
                                                .corrected = true,
                                                .by_logits = true}},
    .names =
        &(const hil_arch_names){
            HIL_ARCH_ENDS,
            HIL_ARCH_ATTENTION,
            HIL_ARCH_MLP,
            .attention_norm = "input_layernorm",
            .attention_post_norm = "post_attn_norm",
            .mlp_norm = "post_attention_layernorm",
            .mlp_post_norm = "post_ffn_norm",
        },
    .mixture =
        &(const hil_mixture_names){
            HIL_ARCH_EXPERTS,
            .correction = "moe.router.expert_bias",
            .shared_gate = "mlp.shared_experts.gate_proj",
            .shared_up = "mlp.shared_experts.up_proj",
            .shared_down = "mlp.shared_experts.down_proj",
        },
    .stacks = kolibri_stacks,
    .read = read_kolibri,
    .build = hil_build_decoder,
};
