/* llama4.c - Llama 4: layers that turn see chunks of the text only, the others all of it, with
   queries that grow; weights of experts multiply what these get. */
#include "model/build.h"

/* moe_layers, or every interleave_moe_layer_step-th layer. */
static hil_status read_places(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t step = 1;
    uint64_t mixed[HIL_LAYER_WORDS] = {0};
    HIL_TRY(hil_config_size(r, "interleave_moe_layer_step", NULL, HIL_LAYERS_MAX, &step));
    HIL_TRY(hil_config_layer_list(r, "moe_layers", mixed));
    if (!json_is_array(json_object_get(r->object, "moe_layers")))
        for (int64_t n = step - 1; n < c->layers; n += step)
            mixed[n / 64] |= (uint64_t)1 << (n % 64);
    for (int i = 0; i < HIL_LAYER_WORDS; ++i) c->mixture.dense[i] = ~mixed[i];
    return HIL_OK;
}

static hil_status read_experts(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_mixture_config *m = &c->mixture;
    m->width = m->shared = c->intermediate;
    c->intermediate = 16384;
    HIL_TRY(
        hil_config_size(r, "intermediate_size_mlp", NULL, HIL_CONFIG_WIDTH_MAX, &c->intermediate));
    HIL_TRY(hil_config_size(r, "num_local_experts", NULL, HIL_CONFIG_WIDTH_MAX, &m->experts));
    HIL_TRY(hil_config_size(r, "num_experts_per_tok", NULL, m->experts, &m->chosen));
    HIL_TRY(hil_config_check_mixture(r));
    return read_places(r);
}

static hil_status read_growth(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool on = true;
    c->growth = (hil_growth_config){0.1, 8192, 1};
    HIL_TRY(hil_config_bool(r, "attn_temperature_tuning", &on));
    HIL_TRY(hil_config_size(r, "floor_scale", NULL, HIL_CONFIG_POSITIONS_MAX, &c->growth.from));
    HIL_TRY(hil_config_real(r, "attn_scale", 0, 1e9, &c->growth.factor));
    if (!on) c->growth.factor = 0;
    return HIL_OK;
}

static hil_status read_chunks(const hil_config_reader *r)
{
    hil_config *c = r->config;
    if (json_is_null(json_object_get(r->object, "attention_chunk_size")))
        return hil_config_refuse(r, "attention_chunk_size", "is null: it must be a number");
    HIL_TRY(hil_config_size(r, "attention_chunk_size", NULL, INT64_MAX, &c->chunk));
    for (int i = 0; i < HIL_LAYER_WORDS; ++i) c->chunks[i] = ~c->still[i];
    return hil_config_layer_types(r);
}

static hil_status read(const hil_config_reader *r)
{
    bool normalized = true;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_bool(r, "use_qk_norm", &normalized));
    r->config->qk_norm = normalized ? HIL_QK_NORM_TURNED : HIL_QK_NORM_NONE;
    HIL_TRY(hil_config_still(r));
    HIL_TRY(read_chunks(r));
    HIL_TRY(read_growth(r));
    return read_experts(r);
}

#define EXPERTS "feed_forward.experts."
static const hil_arch_stack stacks[] = {
    {EXPERTS "gate_up_proj", EXPERTS "*.gate_up_proj.weight", 0, 1, false, HIL_FLAT_NOT, true},
    {EXPERTS "down_proj", EXPERTS "*.down_proj.weight", 0, 1, false, HIL_FLAT_NOT, true},
    {.tensor = NULL},
};

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_PROJECTIONS,
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .gate = "feed_forward.gate_proj",
    .up = "feed_forward.up_proj",
    .down = "feed_forward.down_proj",
};

const hil_arch hil_arch_llama4 = {
    .name = "llama4_text",
    .class_name = "Llama4ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .interleaved = true,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .max_positions = 131072,
                                    .chunk = 8192,
                                    .rope = {.theta = 500000},
                                    .mixture = {.experts = 16,
                                                .chosen = 1,
                                                .sigmoid = true,
                                                .early = true,
                                                .transposed = true},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &names,
    .mixture = &(const hil_mixture_names){.router = "feed_forward.router",
                                          .gate_up = EXPERTS "*.gate_up_proj",
                                          .down = EXPERTS "*.down_proj",
                                          .shared_gate = "feed_forward.shared_expert.gate_proj",
                                          .shared_up = "feed_forward.shared_expert.up_proj",
                                          .shared_down = "feed_forward.shared_expert.down_proj"},
    .stacks = stacks,
    .swapped = true,
    .read = read,
    .build = hil_build_decoder,
};
