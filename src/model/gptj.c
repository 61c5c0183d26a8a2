/* gptj.c - GPT-J: LayerNorm, attention and MLP side by side after one norm, heads of which a part
   turns, and a bias on the logits. */
#include "model/build.h"

static const hil_arch_names names = {
    .embedding = "transformer.wte",
    .blocks = "transformer.h.",
    .norm = "transformer.ln_f",
    .head = "lm_head",
    .attention_norm = "ln_1",
    .q = "attn.q_proj",
    .k = "attn.k_proj",
    .v = "attn.v_proj",
    .o = "attn.out_proj",
    .up = "mlp.fc_in",
    .down = "mlp.fc_out",
};

/* transformers takes both names of each. */
static const hil_config_size_keys sizes = {
    .hidden = {"n_embd", "hidden_size"},
    .layers = {"n_layer", "num_hidden_layers"},
    .heads = {"n_head", "num_attention_heads"},
    .positions = {"n_positions", "max_position_embeddings"},
    .intermediate = {"n_inner"},
};

hil_status hil_config_read_gpt(const hil_config_reader *r)
{
    HIL_TRY(hil_config_sizes_under(r, &sizes));
    HIL_TRY(hil_config_real(r, "attn_pdrop", 0, 1, &r->config->dropout_attention));
    return hil_config_dropouts(r);
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t turning = 64;
    HIL_TRY(hil_config_read_gpt(r));
    if (c->head_dim % 2 != 0)
        return hil_config_refuse(r, "n_head", "does not divide \"n_embd\" into even heads");
    HIL_TRY(hil_config_numbers(r, "layer_norm_epsilon"));
    HIL_TRY(hil_config_activation(r, "activation_function", 1u << HIL_GELU | 1u << HIL_GELU_TANH));
    HIL_TRY(hil_config_size(r, "rotary_dim", NULL, c->head_dim, &turning));
    if (turning % 2 || turning > c->head_dim)
        return hil_config_refuse(r, "rotary_dim", "is odd, or larger than a head");
    c->rope.partial = (double)turning / (double)c->head_dim;
    return HIL_OK;
}

const hil_arch hil_arch_gptj = {
    .name = "gptj",
    .class_name = "GPTJForCausalLM",
    .defaults = &(const hil_config){.parallel = true,
                                    .shared_norm = true,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_eps = 1e-5,
                                    .norm_bias = true,
                                    .head_bias = true,
                                    .mlp_bias = true,
                                    .activation = HIL_GELU_TANH,
                                    .interleaved = true,
                                    .max_positions = 2048,
                                    .bos = 50256,
                                    .eos = 50256,
                                    .pad = -1,
                                    .rope = {.partial = 1}},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
