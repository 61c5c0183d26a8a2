/* persimmon.c - Persimmon: GPT-NeoX one part after the other, with ReLU squared and a norm of each
   head of queries and keys. */
#include "model/build.h"

static const hil_arch_names names = {
    .embedding = "model.embed_tokens",
    .head = "lm_head",
    .norm = "model.final_layernorm",
    .blocks = "model.layers.",
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .qkv = "self_attn.query_key_value",
    .q_norm = "self_attn.q_layernorm",
    .k_norm = "self_attn.k_layernorm",
    .o = "self_attn.dense",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool normalized = true;
    HIL_TRY(hil_config_sizes(r, true));
    if (c->kv_heads != c->heads)
        return hil_config_refuse(r, "num_key_value_heads", "is not a key of persimmon");
    if (c->head_dim * c->heads != c->hidden)
        return hil_config_refuse(r, "head_dim", "is not a key of persimmon");
    HIL_TRY(hil_config_numbers(r, "layer_norm_eps"));
    HIL_TRY(hil_config_refuse_number(r, "hidden_dropout")); /* of the MLP alone */
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_RELU_SQUARED));
    HIL_TRY(hil_config_bool(r, "qk_layernorm", &normalized));
    if (!normalized) c->qk_norm = HIL_QK_NORM_NONE;
    return hil_config_rope(r);
}

const hil_arch hil_arch_persimmon = {
    .name = "persimmon",
    .class_name = "PersimmonForCausalLM",
    .defaults = &(const hil_config){.norm_bias = true,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .attention_bias = true,
                                    .qkv_by_head = true,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .output_bias = true,
                                    .mlp_bias = true,
                                    .activation = HIL_RELU_SQUARED,
                                    .intermediate = 16384,
                                    .max_positions = 16384,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1,
                                    .rope = {.partial = 0.5}},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
