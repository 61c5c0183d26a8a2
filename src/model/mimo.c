/* mimo.c - MiMo-V2-Flash: values that are smaller than keys, and scaled; layers with windows, which
   have sinks and twice the heads of keys; the experts of DeepSeek-V3, which share none. */
#include "model/build.h"

#include <string.h>

#define PART 0.334 /* of a head turns */

/* Where layer_types is absent: all but the first and every sixth have the window, which files may
   give without the position itself. */
static hil_status read_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t before = 0;
    HIL_TRY(hil_config_size(r, "sliding_window", NULL, INT32_MAX, &c->window));
    HIL_TRY(hil_json_int(r->object, "sliding_window_size", r->what, &before));
    if (before < 0 || before >= INT32_MAX)
        return hil_config_refuse(r, "sliding_window_size", "is no number of positions");
    if (json_is_integer(json_object_get(r->object, "sliding_window_size"))) c->window = before + 1;
    hil_config_slide_between(c, 6);
    c->slides[0] &= ~(uint64_t)1;
    return hil_config_layer_types(r);
}

static hil_status read_heads(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_size(r, "v_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &c->value_dim));
    if (c->value_dim > c->head_dim)
        return hil_config_refuse(r, "v_head_dim", "is larger than \"head_dim\"");
    c->local_kv_heads = 2 * c->kv_heads;
    if (c->heads % c->local_kv_heads)
        return hil_config_refuse(r, "num_key_value_heads",
                                 "times 2 does not divide \"num_attention_heads\"");
    if (json_is_null(json_object_get(r->object, "attention_value_scale"))) c->value_scale = 0;
    return hil_config_real(r, "attention_value_scale", c->value_scale > 0 ? 1e-9 : 0, 1e9,
                           &c->value_scale);
}

/* Without its key the part of a head that turns depends on the type in transformers. */
static hil_status check_rope(const hil_config_reader *r, const char *kind)
{
    const json_t *rope = json_object_get(json_object_get(r->object, "rope_parameters"), kind);
    const char *type = "default";
    HIL_TRY(hil_json_string(rope, "type", r->what, &type));
    HIL_TRY(hil_json_string(rope, "rope_type", r->what, &type));
    if (strcmp(type, "default") == 0 || json_object_get(rope, "partial_rotary_factor"))
        return HIL_OK;
    return hil_config_refuse(r, kind, "needs \"partial_rotary_factor\" for its type");
}

static hil_status read_experts(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_mixture_config *m = &c->mixture;
    const json_t *own = json_object_get(r->object, "n_routed_experts");
    const json_t *other = json_object_get(r->object, "num_local_experts");
    if (own && other && !json_equal(own, other))
        return hil_config_refuse(r, "n_routed_experts", "is not \"num_local_experts\"");
    HIL_TRY(hil_config_experts(r, "n_routed_experts", "num_local_experts"));
    HIL_TRY(hil_config_bool(r, "norm_topk_prob", &m->normalized));
    HIL_TRY(hil_config_real(r, "routed_scaling_factor", 1e-9, 1e9, &m->scale));
    HIL_TRY(hil_config_groups(r));
    m->dense[0] = 1;
    return hil_config_mlp_types(r);
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_bool(r, "attention_bias", &c->attention_bias));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(read_heads(r));
    HIL_TRY(read_layers(r));
    HIL_TRY(check_rope(r, "full_attention"));
    HIL_TRY(check_rope(r, "sliding_attention"));
    HIL_TRY(hil_config_rope_nested(r, PART));
    return read_experts(r);
}

/* Under the names of transformers 5 in memory. */
static const hil_arch_stack stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight"),
    {.tensor = "self_attn.sinks", .param = "self_attn.attention_sink_bias", .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_mimo_v2_flash = {
    .name = "mimo_v2_flash",
    .class_name = "MiMoV2FlashForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .heads = 64,
                                    .kv_heads = 4,
                                    .head_dim = 192,
                                    .value_dim = 128,
                                    .value_scale = 0.707,
                                    .local_sinks = true,
                                    .intermediate = 16384,
                                    .max_positions = 131072,
                                    .window = 129,
                                    .rope = {.theta = 5e6, .partial = PART},
                                    .local_rope = {.theta = 10000, .partial = PART},
                                    .mixture = {HIL_ARCH_SIGMOIDS, .experts = 256, .chosen = 8,
                                                .width = 2048, .normalized = true, .scale = 1},
                                    .bos = 1,
                                    .eos = -1,
                                    .pad = -1},
    .names =
        &(const hil_arch_names){
            HIL_ARCH_ENDS,
            HIL_ARCH_PROJECTIONS,
            HIL_ARCH_MLP,
            .attention_norm = "input_layernorm",
            .sinks = "self_attn.attention_sink_bias",
            .mlp_norm = "post_attention_layernorm",
        },
    .mixture = &(const hil_mixture_names){HIL_ARCH_EXPERTS,
                                          .correction = "mlp.gate.e_score_correction_bias"},
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
