/* mamba2.c - Mamba-2: layers with a state space, and nothing else. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    static const hil_mamba_keys keys = {.heads = "num_heads",
                                        .head_dim = "head_dim",
                                        .expand = "expand",
                                        .groups = "n_groups",
                                        .states = "state_size",
                                        .kernel = "conv_kernel",
                                        .kernel_bias = "use_conv_bias",
                                        .bias = "use_bias"};
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "layer_norm_epsilon"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_config_mamba_sizes(r, &keys));
    /* transformers scales weights that it reads. */
    HIL_TRY(hil_config_refuse_flag(r, "rescale_prenorm_residual"));
    for (int64_t n = 0; n < c->layers; ++n) {
        c->mamba.layers[n / 64] |= (uint64_t)1 << (n % 64);
        c->still[n / 64] |= (uint64_t)1 << (n % 64);
    }
    return HIL_OK;
}

/* Sizes of attention and of the MLP, which no layer has, are small. */
const hil_arch hil_arch_mamba2 = {
    .name = "mamba2",
    .class_name = "Mamba2ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .init_std = 0.1,
                                    .lone = true,
                                    .intermediate = 1,
                                    .heads = 1,
                                    .max_positions = 1 << 20,
                                    .bos = 0,
                                    .eos = 2,
                                    .pad = 1,
                                    .mamba = {.heads = 128,
                                              .head_dim = 64,
                                              .groups = 8,
                                              .states = 128,
                                              .kernel = 4,
                                              .kernel_bias = true}},
    .names = &hil_arch_backbone_names,
    .mamba = &(const hil_mamba_names){HIL_ARCH_MAMBA("mixer"), .drawn = true, .whole = true},
    .read = read,
    .build = hil_build_decoder,
};
