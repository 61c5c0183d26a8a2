/* opt.c - OPT and Galactica: learned positions, LayerNorm, an MLP without gates. */
#include "model/build.h"

#include <string.h>

static const hil_arch_names names = {
    .embedding = "model.decoder.embed_tokens",
    .positions = "model.decoder.embed_positions",
    .blocks = "model.decoder.layers.",
    .norm = "model.decoder.final_layer_norm",
    .head = "lm_head",
    .attention_norm = "self_attn_layer_norm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.out_proj",
    .mlp_norm = "final_layer_norm",
    .up = "fc1",
    .down = "fc2",
};

static const hil_config_size_keys sizes = {
    .hidden = {"hidden_size"},
    .layers = {"num_hidden_layers"},
    .heads = {"num_attention_heads"},
    .positions = {"max_position_embeddings"},
    .intermediate = {"ffn_dim"},
};

/* Norms after each part and the narrow embeddings are those of OPT 350M. */
static hil_status refuse_others(const hil_config_reader *r)
{
    const hil_config *c = r->config;
    bool before = true, affine = true;
    int64_t width = c->hidden;
    HIL_TRY(hil_config_bool(r, "do_layer_norm_before", &before));
    if (!before)
        return hil_config_refuse(r, "do_layer_norm_before", "is false, which is not supported");
    HIL_TRY(hil_config_bool(r, "layer_norm_elementwise_affine", &affine));
    if (!affine)
        return hil_config_refuse(r, "layer_norm_elementwise_affine",
                                 "is false, which is not supported");
    HIL_TRY(hil_config_size(r, "word_embed_proj_dim", NULL, HIL_CONFIG_WIDTH_MAX, &width));
    if (width != c->hidden)
        return hil_config_refuse(r, "word_embed_proj_dim",
                                 "differs from \"hidden_size\", which is not supported");
    HIL_TRY(hil_config_refuse_number(r, "layerdrop"));
    return hil_config_refuse_flag(r, "_remove_final_layer_norm");
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes_under(r, &sizes));
    HIL_TRY(refuse_others(r));
    memset(c->still, 0xff, sizeof c->still);
    HIL_TRY(hil_config_bool(r, "tie_word_embeddings", &c->tied));
    HIL_TRY(hil_config_bool(r, "enable_bias", &c->mlp_bias));
    c->attention_bias = c->output_bias = c->mlp_bias;
    HIL_TRY(hil_config_real(r, "dropout", 0, 1, &c->dropout_residual));
    HIL_TRY(hil_config_real(r, "attention_dropout", 0, 1, &c->dropout_attention));
    HIL_TRY(hil_config_real(r, "init_std", 0, 100, &c->init_std));
    return hil_config_activation(r, "activation_function",
                                 1u << HIL_RELU | 1u << HIL_GELU | 1u << HIL_GELU_TANH);
}

const hil_arch hil_arch_opt = {
    .name = "opt",
    .class_name = "OPTForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_RELU,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_bias = true,
                                    .norm_eps = 1e-5,
                                    .mlp_bias = true,
                                    .tied = true,
                                    .frozen_pad = true,
                                    .position_shift = 2,
                                    .max_positions = 2048,
                                    .intermediate = 3072,
                                    .dropout_residual = 0.1,
                                    .bos = 2,
                                    .eos = 2,
                                    .pad = 1},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
