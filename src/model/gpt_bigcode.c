/* gpt_bigcode.c - StarCoder 1 and SantaCoder: GPT-2 with one head of keys and values for all heads
   of queries. */
#include "model/build.h"

#include <math.h>
#include <string.h>

static const hil_arch_names names = {
    .embedding = "transformer.wte",
    .positions = "transformer.wpe",
    .blocks = "transformer.h.",
    .norm = "transformer.ln_f",
    .head = "lm_head",
    .attention_norm = "ln_1",
    .qkv = "attn.c_attn",
    .o = "attn.c_proj",
    .mlp_norm = "ln_2",
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
};

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool shared = true, scaled = true;
    HIL_TRY(hil_config_read_gpt(r));
    HIL_TRY(hil_config_bool(r, "multi_query", &shared));
    if (shared) c->kv_heads = 1;
    c->qkv_by_head = !shared;
    HIL_TRY(hil_config_bool(r, "scale_attn_weights", &scaled));
    if (!scaled) c->attention_scale = 1;
    memset(c->still, 0xff, sizeof c->still);
    c->part_std = c->init_std / sqrt(2 * (double)c->layers);
    HIL_TRY(hil_config_real(r, "layer_norm_epsilon", 1e-30, 1, &c->norm_eps));
    HIL_TRY(hil_config_bool(r, "tie_word_embeddings", &c->tied));
    return hil_config_activation(r, "activation_function",
                                 1u << HIL_RELU | 1u << HIL_GELU | 1u << HIL_GELU_TANH);
}

const hil_arch hil_arch_gpt_bigcode = {
    .name = "gpt_bigcode",
    .class_name = "GPTBigCodeForCausalLM",
    .defaults = &(const hil_config){.norm = HIL_NORM_LAYER,
                                    .norm_bias = true,
                                    .attention_bias = true,
                                    .mlp_bias = true,
                                    .output_bias = true,
                                    .norm_eps = 1e-5,
                                    .activation = HIL_GELU_TANH,
                                    .tied = true,
                                    .max_positions = 1024,
                                    .dropout_attention = 0.1,
                                    .dropout_embed = 0.1,
                                    .dropout_residual = 0.1,
                                    .pad = -1,
                                    .bos = 50256,
                                    .eos = 50256},
    .names = &names,
    .read = read,
    .build = hil_build_decoder,
};
