/* gemma.c - Gemma: norms with 1 + weight, GeGLU, scaled embeddings. Gemma 2 adds norms after each
   part, capped scores and logits, and windows; Gemma 3 replaces the caps by norms of q and k.
   VaultGemma is Gemma 2 without the norms after each part. */
#include "model/build.h"

#include <math.h>

const hil_arch_names hil_arch_gemma_names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    HIL_ARCH_MLP,
    .attention_norm = "input_layernorm",
    .attention_post_norm = "post_attention_layernorm",
    .mlp_norm = "pre_feedforward_layernorm",
    .mlp_post_norm = "post_feedforward_layernorm",
};

/* What all of them have. */
static hil_status read_common(const hil_config_reader *r, const char *activation)
{
    hil_config *c = r->config;
    bool both_ways = false;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_bool(r, "use_bidirectional_attention", &both_ways));
    if (both_ways)
        return hil_config_refuse(r, "use_bidirectional_attention",
                                 "is true: only causal attention is supported");
    c->embedding_scale = sqrt((double)c->hidden);
    return hil_config_activation(r, activation,
                                 1u << HIL_GELU | 1u << HIL_GELU_TANH | 1u << HIL_SILU);
}

static hil_status read_gemma(const hil_config_reader *r)
{
    HIL_TRY(read_common(r, "hidden_act"));
    return hil_config_rope(r);
}

/* A key that may be null to switch its cap off. */
static hil_status read_cap(const hil_config_reader *r, const char *key, double *out)
{
    const json_t *value = json_object_get(r->object, key);
    if (value && json_is_null(value)) {
        *out = 0;
        return HIL_OK;
    }
    return hil_config_real(r, key, *out > 0 ? 1e-6 : 0, 1e9, out);
}

static hil_status read_later(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double scalar = 256;
    HIL_TRY(read_common(r, "hidden_activation"));
    HIL_TRY(hil_config_real(r, "query_pre_attn_scalar", 1e-6, 1e9, &scalar));
    c->attention_scale = 1 / sqrt(scalar);
    HIL_TRY(read_cap(r, "attn_logit_softcapping", &c->attention_cap));
    HIL_TRY(read_cap(r, "final_logit_softcapping", &c->logit_cap));
    return hil_config_sliding_window(r, true);
}

static hil_status read_gemma2(const hil_config_reader *r)
{
    HIL_TRY(read_later(r));
    HIL_TRY(hil_config_rope(r));
    hil_config_slide_between(r->config, 2);
    return hil_config_layer_types(r);
}

static hil_status read_gemma3(const hil_config_reader *r)
{
    int64_t period = 6;
    HIL_TRY(read_later(r));
    HIL_TRY(hil_config_rope_by_type(r));
    HIL_TRY(hil_config_size(r, "sliding_window_pattern", NULL, HIL_LAYERS_MAX, &period));
    hil_config_slide_between(r->config, period);
    return hil_config_layer_types(r);
}

const hil_arch hil_arch_gemma = {
    .name = "gemma",
    .class_name = "GemmaForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_GELU_TANH,
                                    .norm = HIL_NORM_RMS_PLUS,
                                    .max_positions = 8192,
                                    .kv_heads = 16,
                                    .head_dim = 256,
                                    .tied = true,
                                    .frozen_pad = true,
                                    .bos = 2,
                                    .eos = 1},
    .names = &hil_arch_usual_names,
    .read = read_gemma,
    .build = hil_build_decoder,
};

static const hil_config gemma2_defaults = {.activation = HIL_GELU_TANH,
                                           .norm = HIL_NORM_RMS_PLUS,
                                           .max_positions = 8192,
                                           .kv_heads = 4,
                                           .head_dim = 256,
                                           .window = 4096,
                                           .attention_cap = 50,
                                           .logit_cap = 30,
                                           .tied = true,
                                           .frozen_pad = true,
                                           .bos = 2,
                                           .eos = 1};

const hil_arch hil_arch_gemma2 = {
    .name = "gemma2",
    .class_name = "Gemma2ForCausalLM",
    .defaults = &gemma2_defaults,
    .names = &hil_arch_gemma_names,
    .read = read_gemma2,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_vaultgemma = {
    .name = "vaultgemma",
    .class_name = "VaultGemmaForCausalLM",
    .defaults = &gemma2_defaults,
    .names = &(const hil_arch_names){HIL_ARCH_ENDS, HIL_ARCH_ATTENTION, HIL_ARCH_MLP,
                                     .attention_norm = "input_layernorm",
                                     .mlp_norm = "pre_feedforward_layernorm"},
    .read = read_gemma2,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_gemma3 = {
    .name = "gemma3_text",
    .class_name = "Gemma3ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_GELU_TANH,
                                    .vocab = 262208,
                                    .heads = 8,
                                    .norm = HIL_NORM_RMS_PLUS,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .max_positions = 131072,
                                    .kv_heads = 4,
                                    .head_dim = 256,
                                    .window = 4096,
                                    .rope = {.theta = 1000000},
                                    .tied = true,
                                    .frozen_pad = true,
                                    .bos = 2,
                                    .eos = 1},
    .names = &hil_arch_gemma_names,
    .read = read_gemma3,
    .build = hil_build_decoder,
};
