/* granite_moe.c - Granite-MoE: Granite 3 with a mixture of experts, whose files hold one tensor for
   all experts. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    HIL_TRY(hil_arch_granite.read(r));
    r->config->mixture.width = r->config->intermediate;
    return hil_config_mixture(r, "num_local_experts");
}

#define GATE "block_sparse_moe.experts.*.gate_proj"
#define UP "block_sparse_moe.experts.*.up_proj"
#define DOWN "block_sparse_moe.experts.*.down_proj"

static const hil_arch_stack stacks[] = {
    {.tensor = "block_sparse_moe.input_linear.weight",
     .param = GATE ".weight",
     .part = 0,
     .parts = 2,
     .saved = true},
    {.tensor = "block_sparse_moe.input_linear.weight",
     .param = UP ".weight",
     .part = 1,
     .parts = 2,
     .saved = true},
    {.tensor = "block_sparse_moe.output_linear.weight",
     .param = DOWN ".weight",
     .parts = 1,
     .saved = true},
    /* The names of transformers 5 in memory. */
    HIL_ARCH_STACKED("block_sparse_moe.experts", GATE ".weight", UP ".weight", DOWN ".weight"),
    {.tensor = "block_sparse_moe.router.weight",
     .param = "block_sparse_moe.router.layer.weight",
     .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_granite_moe = {
    .name = "granitemoe",
    .class_name = "GraniteMoeForCausalLM",
    .defaults =
        &(const hil_config){
            .activation = HIL_SILU,
            .frozen_pad = true,
            .embedding_scale = 1,
            .attention_scale = 1,
            .residual_scale = 1,
            .max_positions = 2048,
            .mixture = {.experts = 8, .chosen = 2, .normalized = true, .balance = 0.001},
            .bos = 1,
            .eos = 2,
            .pad = -1},
    .names = &hil_arch_usual_names,
    .mixture =
        &(const hil_mixture_names){
            .router = "block_sparse_moe.router.layer", .gate = GATE, .up = UP, .down = DOWN},
    .stacks = stacks,
    .read = read,
    .build = hil_build_decoder,
};
