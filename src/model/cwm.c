/* cwm.c - Code World Model: Llama 3 with windows in three of four layers. */
#include "model/build.h"

/* The first of every four layers has no window. */
static void slide_after_first(hil_config *c)
{
    for (int64_t n = 0; c->window && n < c->layers; ++n)
        if (n % 4) c->slides[n / 64] |= (uint64_t)1 << (n % 64);
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_usual(r));
    if (!hil_config_has_rope(r)) c->rope.theta = c->arch->defaults->rope.theta;
    HIL_TRY(hil_config_bool(r, "mlp_bias", &c->mlp_bias));
    HIL_TRY(hil_config_sliding_window(r, true));
    slide_after_first(c);
    return hil_config_layer_types(r);
}

const hil_arch hil_arch_cwm = {
    .name = "cwm",
    .class_name = "CwmForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .max_positions = 131072,
                                    .window = 8192,
                                    .rope = {.kind = HIL_ROPE_LLAMA3,
                                             .theta = 1e6,
                                             .factor = 16,
                                             .low_freq = 1,
                                             .high_freq = 4,
                                             .original_positions = 8192},
                                    .bos = 128000,
                                    .eos = 128001,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};
