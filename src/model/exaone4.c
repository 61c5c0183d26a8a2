/* exaone4.c - EXAONE 4: norms after each part, norms of queries and keys per head, and windows,
   outside of which layers have no rotary embedding. */
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
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    if (c->window && !json_is_array(json_object_get(r->object, "layer_types")))
        HIL_TRY(hil_config_size(r, "sliding_window_pattern", NULL, HIL_LAYERS_MAX, &period));
    hil_config_slide_between(c, period);
    HIL_TRY(hil_config_layer_types(r));
    for (int i = 0; c->window && i < HIL_LAYER_WORDS; ++i) c->still[i] = ~c->slides[i];
    return HIL_OK;
}

const hil_arch hil_arch_exaone4 = {
    .name = "exaone4",
    .class_name = "Exaone4ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .frozen_pad = true,
                                    .kv_heads = 32,
                                    .max_positions = 2048,
                                    .window = 4096,
                                    .pad = -1,
                                    .bos = 0,
                                    .eos = 2},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
