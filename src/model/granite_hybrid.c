/* granite_hybrid.c - Granite 4: layers with the state space of Mamba-2, some with attention, which
   has no rotary embedding unless the config asks for it; with an MLP, or a mixture of experts and
   one more that all tokens have. */
#include "model/build.h"

#include <string.h>

static void set_all(uint64_t *layers, int64_t count)
{
    for (int64_t n = 0; n < count; ++n) layers[n / 64] |= (uint64_t)1 << (n % 64);
}

/* num_local_experts; 0: an MLP of the width of the shared expert. */
static hil_status read_experts(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t experts = c->mixture.experts, shared = 1024;
    HIL_TRY(hil_config_size(r, "shared_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX, &shared));
    HIL_TRY(hil_json_int(r->object, "num_local_experts", r->what, &experts));
    c->mixture.width = c->intermediate;
    c->mixture.shared = shared;
    if (experts != 0) return hil_config_mixture(r, "num_local_experts");
    c->mixture = (hil_mixture_config){.experts = 0};
    c->intermediate = shared;
    return HIL_OK;
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const char *positions = "";
    HIL_TRY(hil_arch_granite.read(r));
    c->mlp_bias = false; /* there is none in transformers */
    HIL_TRY(hil_json_string(r->object, "position_embedding_type", r->what, &positions));
    if (strcmp(positions, "rope") != 0) set_all(c->still, c->layers);
    HIL_TRY(hil_config_mamba_sizes(r, &hil_mamba_usual_keys));
    set_all(c->mamba.layers, c->layers);
    HIL_TRY(hil_config_layer_types(r));
    return read_experts(r);
}

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .gate_up = "shared_mlp.input_linear",
    .down = "shared_mlp.output_linear",
};

const hil_arch hil_arch_granite_hybrid = {
    .name = "granitemoehybrid",
    .class_name = "GraniteMoeHybridForCausalLM",
    .defaults =
        &(const hil_config){
            .activation = HIL_SILU,
            .frozen_pad = true,
            .embedding_scale = 1,
            .attention_scale = 1,
            .residual_scale = 1,
            .heads = 32,
            .max_positions = 2048,
            .mixture = {.experts = 8, .chosen = 2, .normalized = true, .balance = 0.001},
            .mamba = {HIL_ARCH_MAMBA_SIZES},
            .bos = 1,
            .eos = 2,
            .pad = -1},
    .names = &names,
    .mixture = &hil_arch_granite_experts,
    .mamba = &(const hil_mamba_names){HIL_ARCH_MAMBA("mamba")},
    .stacks = hil_arch_granite_stacks,
    .read = read,
    .build = hil_build_decoder,
};
