/* mixtral.c - Mixtral: Mistral with a mixture of experts in every block. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double noise = 0;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    hil_config_slide_from(c, 0);
    HIL_TRY(hil_config_real(r, "router_jitter_noise", 0, 1, &noise));
    if (noise > 0)
        return hil_config_refuse(r, "router_jitter_noise", "is not supported; set it to 0");
    c->mixture.width = c->intermediate;
    return hil_config_mixture(r, "num_local_experts");
}

/* The names of transformers 5 in memory. */
static const hil_arch_stack stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "block_sparse_moe.experts.*.w1.weight",
                     "block_sparse_moe.experts.*.w3.weight",
                     "block_sparse_moe.experts.*.w2.weight"),
    {.tensor = "mlp.gate.weight", .param = "block_sparse_moe.gate.weight", .parts = 1},
    {.tensor = NULL},
};

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
    .mixture = &(const hil_mixture_names){.router = "block_sparse_moe.gate",
                                          .gate = "block_sparse_moe.experts.*.w1",
                                          .up = "block_sparse_moe.experts.*.w3",
                                          .down = "block_sparse_moe.experts.*.w2"},
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
