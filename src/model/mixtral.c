/* mixtral.c - Mixtral: Mistral with a mixture of experts in every block. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_from(c, 0);
    HIL_TRY(hil_config_refuse_number(r, "router_jitter_noise"));
    c->mixture.width = c->intermediate;
    return hil_config_mixture(r, "num_local_experts");
}

const hil_arch hil_arch_mixtral = {
    .name = "mixtral",
    .class_name = "MixtralForCausalLM",
    .defaults =
        &(const hil_config){
            .activation = HIL_SILU,
            .frozen_pad = true,
            .max_positions = 131072,
            .kv_heads = 8,
            .norm_eps = 1e-5,
            .rope = {.theta = 1e6},
            .mixture = {.experts = 8, .chosen = 2, .normalized = true, .balance = 0.001},
            .bos = 1,
            .eos = 2,
            .pad = -1},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){HIL_ARCH_BLOCK_SPARSE},
    .stacks = hil_arch_block_sparse_stacks,
    .read = read,
    .build = hil_build_decoder,
};
