/* neox.c - GPT-NeoX and Pythia: LayerNorm, attention and MLP side by side, a fused projection with
   q, k and v of each head together, and heads of which a part turns. */
#include "model/build.h"

static const hil_arch_names names = {
    .embedding = "gpt_neox.embed_in",
    .blocks = "gpt_neox.layers.",
    .norm = "gpt_neox.final_layer_norm",
    .head = "embed_out",
    .attention_norm = "input_layernorm",
    .qkv = "attention.query_key_value",
    .o = "attention.dense",
    .mlp_norm = "post_attention_layernorm",
    .up = "mlp.dense_h_to_4h",
    .down = "mlp.dense_4h_to_h",
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, true));
    if (c->kv_heads != c->heads)
        return hil_config_refuse(r, "num_key_value_heads", "is not a key of gpt_neox");
    HIL_TRY(hil_config_numbers(r, "layer_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_bool(r, "use_parallel_residual", &c->parallel));
    HIL_TRY(hil_config_real(r, "hidden_dropout", 0, 1, &c->dropout_residual));
    c->dropout_embed = c->dropout_residual;
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_GELU | 1u << HIL_GELU_TANH));
    HIL_TRY(hil_config_real(r, "rotary_pct", 0, 1.0001, &c->rope.partial));
    HIL_TRY(hil_config_real(r, "rotary_emb_base", 1e-6, 1e30, &c->rope.theta));
    return hil_config_rope(r);
}

const hil_arch hil_arch_neox = {
    .name = "gpt_neox",
    .class_name = "GPTNeoXForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_GELU,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_bias = true,
                                    .norm_eps = 1e-5,
                                    .parallel = true,
                                    .qkv_by_head = true,
                                    .attention_bias = true,
                                    .mlp_bias = true,
                                    .max_positions = 2048,
                                    .rope = {.partial = 0.25},
                                    .bos = 0,
                                    .eos = 2,
                                    .pad = -1},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
