/* olmo.c - OLMo: Llama whose norms have no weights. OLMo 2: norms after each part instead of
   before, and of the whole of q and k. OLMo 3 adds windows. */
#include "model/build.h"

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    HIL_ARCH_MLP,
    .attention_post_norm = "post_attention_layernorm",
    .mlp_post_norm = "post_feedforward_layernorm",
};

static hil_status read_common(const hil_config_reader *r)
{
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    return hil_config_activation(r, "hidden_act", 1u << HIL_SILU);
}

/* The epsilon has no key. */
static hil_status read_olmo(const hil_config_reader *r)
{
    HIL_TRY(hil_config_refuse_number(r, "clip_qkv"));
    HIL_TRY(read_common(r));
    r->config->norm_eps = 1e-5;
    return hil_config_rope(r);
}

static hil_status read_olmo2(const hil_config_reader *r)
{
    HIL_TRY(read_common(r));
    return hil_config_rope(r);
}

/* rope_theta is that of both kinds of layers; its scaling that of layers with full attention. */
static hil_status read_olmo3(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(read_common(r));
    HIL_TRY(hil_config_real(r, "rope_theta", 1e-6, 1e30, &c->local_rope.theta));
    HIL_TRY(hil_config_rope_by_type(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_between(c, 4);
    return hil_config_layer_types(r);
}

const hil_arch hil_arch_olmo = {
    .name = "olmo",
    .class_name = "OlmoForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm = HIL_NORM_LAYER_BARE,
                                    .frozen_pad = true,
                                    .max_positions = 2048,
                                    .bos = -1,
                                    .eos = 50279,
                                    .pad = 1},
    .names = &(const hil_arch_names){.embedding = "model.embed_tokens",
                                     .blocks = "model.layers.",
                                     .head = "lm_head",
                                     HIL_ARCH_ATTENTION,
                                     HIL_ARCH_MLP},
    .read = read_olmo,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_olmo2 = {
    .name = "olmo2",
    .class_name = "Olmo2ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .qk_norm = HIL_QK_NORM_WHOLE,
                                    .frozen_pad = true,
                                    .max_positions = 2048,
                                    .bos = -1,
                                    .eos = 50279,
                                    .pad = 1},
    .names = &names,
    .read = read_olmo2,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_olmo3 = {
    .name = "olmo3",
    .class_name = "Olmo3ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .qk_norm = HIL_QK_NORM_WHOLE,
                                    .frozen_pad = true,
                                    .max_positions = 2048,
                                    .window = 4096,
                                    .rope = {.theta = 500000},
                                    .local_rope = {.theta = 500000},
                                    .bos = -1,
                                    .eos = 50279,
                                    .pad = 1},
    .names = &names,
    .read = read_olmo3,
    .build = hil_build_decoder,
};
