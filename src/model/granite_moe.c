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

#define USUAL                                                                                      \
    .activation = HIL_SILU, .frozen_pad = true, .embedding_scale = 1, .attention_scale = 1,        \
    .residual_scale = 1, .max_positions = 2048,                                                    \
    .mixture = {.experts = 8, .chosen = 2, .normalized = true, .balance = 0.001}, .bos = 1,        \
    .eos = 2, .pad = -1
static const hil_config defaults = {USUAL};

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

static hil_status read_swa(const hil_config_reader *r)
{
    HIL_TRY(read_shared(r));
    return hil_config_granite_windows(r);
}

static const hil_arch_names sink_names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_PROJECTIONS,
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .sinks = "self_attn.sinks",
};

#define STACK "block_sparse_moe.experts."
static const hil_arch_stack swa_stacks[] = {
    {STACK "gate_up_proj", GATE ".weight", 0, 2, false, HIL_FLAT_NOT, true},
    {STACK "gate_up_proj", UP ".weight", 1, 2, false, HIL_FLAT_NOT, true},
    {STACK "down_proj", DOWN ".weight", 0, 1, false, HIL_FLAT_NOT, true},
    {.tensor = NULL},
};

const hil_arch hil_arch_granite_moe_swa = {
    .name = "granitemoe_swa",
    .class_name = "GraniteMoeSWAForCausalLM",
    .defaults = &(const hil_config){USUAL, .window = 128},
    .names = &sink_names,
    .mixture = &(const hil_mixture_names){.router = "block_sparse_moe.router",
                                          .gate = GATE,
                                          .up = UP,
                                          .down = DOWN,
                                          .shared_gate_up = "shared_mlp.input_linear",
                                          .shared_down = "shared_mlp.output_linear"},
    .stacks = swa_stacks,
    .read = read_swa,
    .build = hil_build_decoder,
};
