/* laguna.c - Laguna: attention whose result is gated by softplus, layers with windows that may have
   other heads and turn by an embedding of their own, and experts that are chosen by sigmoids and a
   bias beside one that all tokens have. */
#include "model/build.h"

#include <string.h>

/* gating: a gate for each head, or for each number. */
static hil_status read_gates(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *gating = json_object_get(r->object, "gating");
    const char *word = json_string_value(gating);
    c->own_gate = HIL_OWN_GATE_HEAD;
    if (!gating || json_is_true(gating) || (word && strcmp(word, "per-head") == 0)) return HIL_OK;
    c->own_gate = HIL_OWN_GATE_NUMBER;
    if (word && strcmp(word, "per-element") == 0) return HIL_OK;
    return hil_config_refuse(r, "gating", "must be true, per-head or per-element");
}

/* The heads of layer n; 0: they are no number. */
static int64_t heads_of(const json_t *list, int64_t n)
{
    const json_t *item = json_array_get(list, (size_t)n);
    int64_t heads = json_is_integer(item) ? json_integer_value(item) : 0;
    return heads > 0 && heads <= HIL_CONFIG_HEADS_MAX ? heads : 0;
}

/* Those of one kind of layers: the same in all of them; *out stays where there are none. */
static hil_status read_kind(const hil_config_reader *r, const json_t *list, bool slides,
                            int64_t *out)
{
    static const char key[] = "num_attention_heads_per_layer";
    const hil_config *c = r->config;
    int64_t first = 0;
    for (int64_t n = 0; n < c->layers; ++n) {
        int64_t heads = heads_of(list, n);
        if ((hil_config_window(c, n) > 0) != slides) continue;
        if (first && heads != first)
            return hil_config_refuse(r, key, "differs in layers of one kind");
        if (!heads || heads % c->kv_heads)
            return hil_config_refuse(r, key,
                                     "has a number that \"num_key_value_heads\" does not "
                                     "divide");
        if (heads * c->head_dim > HIL_CONFIG_WIDTH_MAX)
            return hil_config_refuse(r, key, "times the size of heads is too large");
        *out = first = heads;
    }
    return HIL_OK;
}

static hil_status read_heads(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *list = json_object_get(r->object, "num_attention_heads_per_layer");
    if (!list || json_is_null(list)) return HIL_OK;
    if ((int64_t)json_array_size(list) != c->layers)
        return hil_config_refuse(r, "num_attention_heads_per_layer",
                                 "must be a list with an entry per layer");
    c->local_heads = c->heads;
    HIL_TRY(read_kind(r, list, false, &c->heads));
    return read_kind(r, list, true, &c->local_heads);
}

/* transformers takes the auxiliary loss from a softmax of the scores here. */
static hil_status read_experts(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_mixture_config *m = &c->mixture;
    HIL_TRY(hil_config_refuse_flag(r, "output_router_logits"));
    HIL_TRY(hil_config_refuse_flag(r, "moe_apply_router_weight_on_input"));
    HIL_TRY(hil_config_experts(r, "num_experts", NULL));
    HIL_TRY(hil_config_size(r, "shared_expert_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX,
                            &m->shared));
    HIL_TRY(hil_config_real(r, "moe_routed_scaling_factor", 1e-9, 1e9, &m->scale));
    HIL_TRY(hil_config_real(r, "moe_router_logit_softcapping", -1e9, 1e9, &m->cap));
    m->dense[0] = 1;
    return hil_config_mlp_types(r);
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_size(r, "sliding_window", NULL, INT32_MAX, &c->window));
    HIL_TRY(hil_config_layer_types(r));
    HIL_TRY(read_heads(r));
    HIL_TRY(read_gates(r));
    HIL_TRY(hil_config_rope_nested(r, 1));
    return read_experts(r);
}

/* Experts as transformers 5 has them in memory. */
static const hil_arch_stack stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight"),
    {.tensor = "mlp.gate.e_score_correction_bias",
     .param = "mlp.experts.e_score_correction_bias",
     .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_laguna = {
    .name = "laguna",
    .class_name = "LagunaForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .softplus_gate = true,
                                    .frozen_pad = true,
                                    .heads = 48,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .intermediate = 8192,
                                    .max_positions = 131072,
                                    .window = 512,
                                    .rope = {.theta = 500000, .partial = 0.5},
                                    .local_rope = {.theta = 10000, .partial = 1},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1,
                                    .mixture = {.experts = 256,
                                                .chosen = 8,
                                                .sigmoid = true,
                                                .corrected = true,
                                                .width = 512,
                                                .shared = 512,
                                                .normalized = true,
                                                .scale = 1}},
    .names =
        &(const hil_arch_names){HIL_ARCH_ENDS, HIL_ARCH_ATTENTION, HIL_ARCH_MLP,
                                .own_gate = "self_attn.g_proj", .attention_norm = "input_layernorm",
                                .mlp_norm = "post_attention_layernorm"},
    /* As in files: in memory it is mlp.shared_experts, a name that PEFT does not find again. */
    .mixture = &(const hil_mixture_names){HIL_ARCH_EXPERTS,
                                          .correction = "mlp.experts.e_score_correction_bias",
                                          .shared_gate = "mlp.shared_expert.gate_proj",
                                          .shared_up = "mlp.shared_expert.up_proj",
                                          .shared_down = "mlp.shared_expert.down_proj"},
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
