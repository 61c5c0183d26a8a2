/* seed_oss.c - Seed-OSS: Llama with biases on q, k and v, and dropout after each part. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_llama(r));
    c->output_bias = false;
    HIL_TRY(hil_config_bool(r, "attention_out_bias", &c->output_bias));
    return hil_config_real(r, "residual_dropout", 0, 1, &c->dropout_residual);
}

const hil_arch hil_arch_seed_oss = {
    .name = "seed_oss",
    .class_name = "SeedOssForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .attention_bias = true,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .max_positions = 524288,
                                    .dropout_attention = 0.1,
                                    .dropout_residual = 0.1,
                                    .bos = 0,
                                    .eos = 2,
                                    .pad = 1},
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};
