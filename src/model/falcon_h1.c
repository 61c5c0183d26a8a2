/* falcon_h1.c - Falcon-H1: every layer has attention and beside it the state space of Mamba-2;
   factors of what the parts read and give. */
#include "model/build.h"

#include <math.h>

static hil_status read_factors(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double keys = 1, mlp[2] = {1, 1};
    const struct {
        const char *key;
        double *factor;
    } rows[] = {{"embedding_multiplier", &c->embedding_scale},
                {"lm_head_multiplier", &c->logit_scale},
                {"key_multiplier", &keys},
                {"attention_in_multiplier", &c->attention_in},
                {"attention_out_multiplier", &c->attention_out},
                {"ssm_in_multiplier", &c->mamba.in},
                {"ssm_out_multiplier", &c->mamba.out}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        *rows[i].factor = 1;
        HIL_TRY(hil_config_real(r, rows[i].key, 1e-9, 1e9, rows[i].factor));
    }
    HIL_TRY(hil_config_reals(r, "mlp_multipliers", 2, mlp));
    HIL_TRY(hil_config_reals(r, "ssm_multipliers", 5, c->mamba.parts));
    c->attention_scale = keys / sqrt((double)c->head_dim);
    c->gate_scale = mlp[0] == 1 ? 0 : mlp[0];
    c->mlp_out = mlp[1] == 1 ? 0 : mlp[1];
    if (c->attention_in == 1) c->attention_in = 0;
    if (c->attention_out == 1) c->attention_out = 0;
    return HIL_OK;
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_mamba_keys keys = hil_mamba_usual_keys;
    bool normalised = false;
    keys.inner = "mamba_d_ssm";
    keys.out_bias = "projectors_bias";
    HIL_TRY(hil_config_read_llama(r));
    HIL_TRY(hil_config_mamba_sizes(r, &keys));
    HIL_TRY(hil_config_bool(r, "mamba_rms_norm", &normalised));
    HIL_TRY(hil_config_bool(r, "mamba_norm_before_gate", &c->mamba.norm_first));
    c->mamba.bare = !normalised;
    for (int64_t n = 0; n < c->layers; ++n) c->mamba.layers[n / 64] |= (uint64_t)1 << (n % 64);
    return read_factors(r);
}

const hil_arch_names hil_arch_falcon_names = {
    .embedding = "model.embed_tokens",
    .blocks = "model.layers.",
    .norm = "model.final_layernorm",
    .head = "lm_head",
    HIL_ARCH_PROJECTIONS,
    .attention_norm = "input_layernorm",
    .mlp_norm = "pre_ff_layernorm",
    .gate = "feed_forward.gate_proj",
    .up = "feed_forward.up_proj",
    .down = "feed_forward.down_proj",
};

const hil_arch hil_arch_falcon_h1 = {
    .name = "falcon_h1",
    .class_name = "FalconH1ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .max_positions = 8192,
                                    .mamba = {HIL_ARCH_MAMBA_SIZES, .beside = true,
                                              .norm_first = true, .parts = {1, 1, 1, 1, 1}},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = 0},
    .names = &hil_arch_falcon_names,
    .mamba = &(const hil_mamba_names){HIL_ARCH_MAMBA("mamba"), .whole = true},
    .read = read,
    .build = hil_build_decoder,
};
