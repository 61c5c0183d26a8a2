/* granite_moe.c - Granite-MoE: Granite 3 with a mixture of experts, whose files hold one tensor for
   all experts; also with one more expert that all tokens have. */
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

const hil_arch_stack hil_arch_granite_stacks[] = {
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

static hil_status read_shared(const hil_config_reader *r)
{
    int64_t *width = &r->config->mixture.shared;
    HIL_TRY(read(r));
    HIL_TRY(hil_json_int(r->object, "shared_intermediate_size", r->what, width));
    if (*width >= 0 && *width <= HIL_CONFIG_WIDTH_MAX) return HIL_OK;
    return hil_config_refuse(r, "shared_intermediate_size", "is no size of an expert");
}

static const hil_config defaults = {
    .activation = HIL_SILU,
    .frozen_pad = true,
    .embedding_scale = 1,
    .attention_scale = 1,
    .residual_scale = 1,
    .max_positions = 2048,
    .mixture = {.experts = 8, .chosen = 2, .normalized = true, .balance = 0.001},
    .bos = 1,
    .eos = 2,
    .pad = -1};

const hil_arch hil_arch_granite_moe = {
    .name = "granitemoe",
    .class_name = "GraniteMoeForCausalLM",
    .defaults = &defaults,
    .names = &hil_arch_usual_names,
    .mixture =
        &(const hil_mixture_names){
            .router = "block_sparse_moe.router.layer", .gate = GATE, .up = UP, .down = DOWN},
    .stacks = hil_arch_granite_stacks,
    .read = read,
    .build = hil_build_decoder,
};

const hil_mixture_names hil_arch_granite_experts = {
    .router = "block_sparse_moe.router.layer",
    .gate = GATE,
    .up = UP,
    .down = DOWN,
    .shared_gate_up = "shared_mlp.input_linear",
    .shared_down = "shared_mlp.output_linear",
};

const hil_arch hil_arch_granite_moe_shared = {
    .name = "granitemoeshared",
    .class_name = "GraniteMoeSharedForCausalLM",
    .defaults = &defaults,
    .names = &hil_arch_usual_names,
    .mixture = &hil_arch_granite_experts,
    .stacks = hil_arch_granite_stacks,
    .read = read_shared,
    .build = hil_build_decoder,
};
