/* olmo_hybrid.c - OLMo Hybrid: layers of OLMo 2 between layers of Llama whose attention is linear,
   by the gated delta rule. */
#include "model/build.h"

#include <string.h>

/* Where keys are absent the heads are those of attention, which share three quarters of the hidden
   size; values are twice as large as keys. */
static hil_status read_delta(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_delta_config *s = &c->delta;
    bool twice = true;
    s->key_heads = s->heads = c->heads;
    HIL_TRY(hil_config_size(r, "linear_num_key_heads", NULL, HIL_CONFIG_HEADS_MAX, &s->key_heads));
    s->key_dim = (int64_t)(0.75 * (double)c->hidden / (double)s->key_heads);
    HIL_TRY(hil_config_size(r, "linear_key_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &s->key_dim));
    s->value_dim = 2 * s->key_dim;
    HIL_TRY(hil_config_bool(r, "linear_allow_neg_eigval", &twice));
    s->write = twice ? 2 : 1;
    return hil_config_delta_sizes(r);
}

/* All but every fourth layer have linear attention, or all but the last one of a few. */
static hil_status read_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t count = 0;
    for (int64_t n = 0; n < c->layers; ++n)
        if ((n + 1) % 4 && (c->layers > 3 || n + 1 < c->layers))
            c->delta.layers[n / 64] |= (uint64_t)1 << (n % 64);
    HIL_TRY(hil_config_layer_types(r));
    for (int64_t n = 0; n < c->layers; ++n) count += hil_config_linear(c, n);
    if (count && count < c->layers) return HIL_OK;
    return hil_config_refuse(r, "layer_types",
                             "must have full_attention and linear_attention for olmo_hybrid");
}

static bool is_null(const json_t *object, const char *key)
{
    return json_is_null(json_object_get(object, key));
}

/* Without rope_theta, which is then null, nothing turns. */
static hil_status read_rope(const hil_config_reader *r)
{
    const json_t *rope = json_object_get(r->object, "rope_scaling");
    if (!json_object_size(rope)) rope = json_object_get(r->object, "rope_parameters");
    bool inside = json_object_get(rope, "rope_theta") != NULL;
    if (!is_null(inside ? rope : r->object, "rope_theta")) return hil_config_rope(r);
    memset(r->config->still, 0xff, sizeof r->config->still);
    return HIL_OK;
}

static hil_status read(const hil_config_reader *r)
{
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(read_rope(r));
    HIL_TRY(read_delta(r));
    return read_layers(r);
}

#define LINEAR(name) "linear_attn." name
#define BEFORE "input_layernorm"
#define BETWEEN "post_attention_layernorm" /* after attention, or before the MLP */
#define SAVED(name, own)                                                                           \
    {                                                                                              \
        .tensor = name ".weight", .param = own ".weight", .parts = 1, .saved = true                \
    }
/* As transformers saves them, in all layers. */
static const hil_arch_stack stacks[] = {
    SAVED("attention_layer_norm", BEFORE),
    SAVED("feedforward_layer_norm", BETWEEN),
    {.tensor = NULL},
};

const hil_arch hil_arch_olmo_hybrid = {
    .name = "olmo_hybrid",
    .class_name = "OlmoHybridForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .qk_norm = HIL_QK_NORM_WHOLE,
                                    .frozen_pad = true,
                                    .heads = 30,
                                    .intermediate = 11008,
                                    .max_positions = 65536,
                                    .delta = {.kernel = 4, .norm_eps = 1e-5},
                                    .bos = -1,
                                    .eos = 100257,
                                    .pad = 100277},
    .names = &(const hil_arch_names){HIL_ARCH_ENDS, HIL_ARCH_ATTENTION, HIL_ARCH_MLP,
                                     .attention_post_norm = BETWEEN,
                                     .mlp_post_norm = "post_feedforward_layernorm"},
    .linear_names = &(const hil_arch_names){HIL_ARCH_ENDS, HIL_ARCH_MLP, .attention_norm = BEFORE,
                                            .mlp_norm = BETWEEN},
    .delta = &(const hil_delta_names){.q = LINEAR("q_proj"),
                                      .k = LINEAR("k_proj"),
                                      .v = LINEAR("v_proj"),
                                      .z = LINEAR("g_proj"),
                                      .b = LINEAR("b_proj"),
                                      .a = LINEAR("a_proj"),
                                      .q_kernel = LINEAR("q_conv1d"),
                                      .k_kernel = LINEAR("k_conv1d"),
                                      .v_kernel = LINEAR("v_conv1d"),
                                      .rate = LINEAR("A_log"),
                                      .bias = LINEAR("dt_bias"),
                                      .norm = LINEAR("o_norm"),
                                      .out = LINEAR("o_proj"),
                                      .drawn = true},
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
