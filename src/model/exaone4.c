/* exaone4.c - EXAONE 4: norms after each part, norms of queries and keys per head, and windows,
   outside of which layers have no rotary embedding. K-EXAONE has norms before each part, and the
   experts of DeepSeek-V3. */
#include "model/build.h"

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_MLP,
    HIL_ARCH_ATTENTION,
    .attention_post_norm = "post_attention_layernorm",
    .mlp_post_norm = "post_feedforward_layernorm",
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t period = 4;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    if (c->window && !json_is_array(json_object_get(r->object, "layer_types")))
        HIL_TRY(hil_config_size(r, "sliding_window_pattern", NULL, HIL_LAYERS_MAX, &period));
    hil_config_slide_between(c, period);
    HIL_TRY(hil_config_layer_types(r));
    for (int i = 0; c->window && i < HIL_LAYER_WORDS; ++i) c->still[i] = ~c->slides[i];
    return HIL_OK;
}

#define EXAONE                                                                                     \
    .activation = HIL_SILU, .norm_eps = 1e-5, .qk_norm = HIL_QK_NORM_HEAD, .frozen_pad = true,     \
    .kv_heads = 32, .max_positions = 2048, .window = 4096

const hil_arch hil_arch_exaone4 = {
    .name = "exaone4",
    .class_name = "Exaone4ForCausalLM",
    .defaults = &(const hil_config){EXAONE, .pad = -1, .bos = 0, .eos = 2},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};

static hil_status read_moe(const hil_config_reader *r)
{
    int64_t shared = 1;
    HIL_TRY(read(r));
    HIL_TRY(hil_config_size(r, "num_shared_experts", NULL, 1024, &shared));
    HIL_TRY(hil_config_grouped_mixture(r, shared, 1));
    return hil_config_mlp_types(r);
}

/* The names of transformers 5 in memory. */
static const hil_arch_stack stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight"),
    {.tensor = "mlp.gate.e_score_correction_bias",
     .param = "mlp.e_score_correction_bias",
     .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_exaone_moe = {
    .name = "exaone_moe",
    .class_name = "ExaoneMoeForCausalLM",
    .defaults = &(const hil_config){EXAONE,
                                    .mixture = {HIL_ARCH_SIGMOIDS, .experts = 64, .chosen = 8,
                                                .width = 1024, .normalized = true, .scale = 2.5},
                                    .bos = 1, .eos = 53, .pad = 0},
    .names = &hil_arch_usual_names,
    .mixture =
        &(const hil_mixture_names){
            HIL_ARCH_EXPERTS,
            .correction = "mlp.e_score_correction_bias",
            .shared_gate = "mlp.shared_experts.gate_proj",
            .shared_up = "mlp.shared_experts.up_proj",
            .shared_down = "mlp.shared_experts.down_proj",
        },
    .stacks = stacks,
    .fused = true,
    .read = read_moe,
    .build = hil_build_decoder,
};
