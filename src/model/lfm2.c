/* lfm2.c - LFM2: layers with a gated convolution over a few positions, and some with grouped
   attention, whose queries and keys are normalised; with an MLP, or but for the first layers a
   mixture of experts. LFM3 has windows, gates of heads, and norms after each part. */
#include "model/build.h"

#include <string.h>

#define KERNEL_MAX 64

/* What the MLP has of intermediate_size. */
static hil_status read_width(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool adjusts = true;
    double factor = 1;
    int64_t unit = 256, width;
    HIL_TRY(hil_config_size(r, "block_ff_dim", NULL, 4 * HIL_CONFIG_WIDTH_MAX, &c->intermediate));
    HIL_TRY(hil_config_bool(r, "block_auto_adjust_ff_dim", &adjusts));
    HIL_TRY(hil_config_real(r, "block_ffn_dim_multiplier", 1e-6, 1000, &factor));
    HIL_TRY(hil_config_size(r, "block_multiple_of", NULL, HIL_CONFIG_WIDTH_MAX, &unit));
    if (!adjusts) return HIL_OK;
    width = (int64_t)((double)(2 * c->intermediate) / 3);
    if (json_is_null(json_object_get(r->object, "block_ffn_dim_multiplier"))) unit = 1;
    width = (int64_t)(factor * (double)width);
    c->intermediate = (width + unit - 1) / unit * unit;
    if (c->intermediate < 1 || c->intermediate > 4 * HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "block_ffn_dim_multiplier", "leaves no width of the MLP");
    return HIL_OK;
}

/* full_attn_idxs, in older files: the layers with attention; absent: all. */
static hil_status read_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *list = json_object_get(r->object, "full_attn_idxs");
    if (json_is_array(list)) {
        for (int64_t n = 0; n < c->layers; ++n) c->conv.layers[n / 64] |= (uint64_t)1 << (n % 64);
        for (size_t i = 0; i < json_array_size(list); ++i) {
            int64_t n = json_integer_value(json_array_get(list, i));
            if (n < 0 || n >= c->layers)
                return hil_config_refuse(r, "full_attn_idxs", "names a layer that does not exist");
            c->conv.layers[n / 64] &= ~((uint64_t)1 << (n % 64));
        }
    }
    return hil_config_layer_types(r);
}

/* What both have. */
static hil_status read_usual(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "norm_eps"));
    c->dropout_attention = 0; /* there is none in transformers */
    HIL_TRY(hil_config_bool(r, "tie_embedding", &c->tied));
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(hil_config_refuse_flag(r, "conv_bias"));
    HIL_TRY(hil_config_size(r, "conv_L_cache", NULL, KERNEL_MAX, &c->conv.kernel));
    return read_layers(r);
}

static hil_status read_dense(const hil_config_reader *r)
{
    HIL_TRY(read_usual(r));
    return read_width(r);
}

/* transformers has no auxiliary loss here. */
static hil_status read_moe(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t dense = 2;
    HIL_TRY(read_usual(r));
    HIL_TRY(hil_config_refuse_flag(r, "output_router_logits"));
    HIL_TRY(hil_config_mixture(r, "num_experts"));
    HIL_TRY(hil_config_bool(r, "use_expert_bias", &c->mixture.corrected));
    HIL_TRY(hil_config_real(r, "routed_scaling_factor", 1e-9, 1e9, &c->mixture.scale));
    HIL_TRY(hil_json_int(r->object, "num_dense_layers", r->what, &dense));
    memset(c->mixture.dense, 0, sizeof c->mixture.dense);
    for (int64_t n = 0; n < dense && n < c->layers; ++n)
        c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    return HIL_OK;
}

#define USUAL                                                                                      \
    .activation = HIL_SILU, .norm_eps = 1e-5, .qk_norm = HIL_QK_NORM_HEAD, .frozen_pad = true,     \
    .tied = true, .max_positions = 128000, .heads = 32, .kv_heads = 8, .rope = {.theta = 1000000}, \
    .conv = {.kernel = 3}, .bos = 1, .eos = 2, .pad = 0

static const hil_arch_names names = {
    .embedding = "model.embed_tokens",
    .blocks = "model.layers.",
    .norm = "model.embedding_norm",
    .head = "lm_head",
    .attention_norm = "operator_norm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.out_proj",
    .q_norm = "self_attn.q_layernorm",
    .k_norm = "self_attn.k_layernorm",
    .mlp_norm = "ffn_norm",
    .gate = "feed_forward.w1",
    .up = "feed_forward.w3",
    .down = "feed_forward.w2",
};

static const hil_arch_stack stacks[] = {
    HIL_ARCH_STACKED("feed_forward.experts", "feed_forward.experts.*.w1.weight",
                     "feed_forward.experts.*.w3.weight", "feed_forward.experts.*.w2.weight"),
    {.tensor = NULL},
};

const hil_arch hil_arch_lfm2 = {
    .name = "lfm2",
    .class_name = "Lfm2ForCausalLM",
    .defaults = &(const hil_config){USUAL, .intermediate = 12288},
    .names = &names,
    .read = read_dense,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_lfm2_moe = {
    .name = "lfm2_moe",
    .class_name = "Lfm2MoeForCausalLM",
    .defaults = &(const hil_config){USUAL, .intermediate = 7168,
                                    .mixture = {.experts = 32,
                                                .chosen = 4,
                                                .width = 1792,
                                                .sigmoid = true,
                                                .corrected = true,
                                                .normalized = true,
                                                .scale = 1,
                                                .eps = 1e-6}},
    .names = &names,
    .mixture = &(const hil_mixture_names){.router = "feed_forward.gate",
                                          .gate = "feed_forward.experts.*.w1",
                                          .up = "feed_forward.experts.*.w3",
                                          .down = "feed_forward.experts.*.w2",
                                          .correction = "feed_forward.expert_bias"},
    .stacks = stacks,
    .read = read_moe,
    .build = hil_build_decoder,
};

/* Where layer_types is absent. */
static void set_layers(hil_config *c)
{
    for (int64_t n = 0; n < c->layers; ++n) {
        uint64_t bit = (uint64_t)1 << (n % 64);
        if (n % 4 == 0 && n > 0)
            c->slides[n / 64] |= bit;
        else if (n % 4 != 2)
            c->conv.layers[n / 64] |= bit;
    }
}

/* A part of a head turns only with the proportional kind; one that is given has other defaults than
   one that is absent. */
static hil_status read_lfm3_rope(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *all = json_object_get(r->object, "rope_parameters"), *scaling;
    hil_rope_config usual = {.theta = 1e6, .factor = 1, .partial = 1};
    if (!hil_config_has_rope(r)) {
        HIL_TRY(hil_config_refuse_number(r, "partial_rotary_factor"));
        c->local_rope.theta = 10000;
        c->has_local = true;
        return HIL_OK;
    }
    scaling = json_object_get(r->object, "rope_scaling");
    if ((scaling && !json_is_null(scaling)) || json_object_get(all, "rope_type"))
        return hil_config_refuse(r, "rope_parameters",
                                 "must have an object for each of full_attention and "
                                 "sliding_attention");
    HIL_TRY(hil_config_real(r, "rope_theta", 1e-6, 1e30, &usual.theta));
    HIL_TRY(hil_config_real(r, "partial_rotary_factor", 0, 1.0001, &usual.partial));
    c->rope = c->local_rope = usual;
    HIL_TRY(hil_config_rope_by_type(r));
    const hil_rope_config *both[] = {&c->rope, &c->local_rope};
    for (int i = 0; i < 2; ++i)
        if (both[i]->kind != HIL_ROPE_PROPORTIONAL && both[i]->partial != 1)
            return hil_config_refuse(r, "partial_rotary_factor",
                                     "needs the type proportional where it is not 1");
    return HIL_OK;
}

static hil_status read_lfm3(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool posts = true, gates = true;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "norm_eps"));
    HIL_TRY(hil_config_real(r, "rms_norm_eps", 1e-30, 1, &c->norm_eps));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(read_lfm3_rope(r));
    HIL_TRY(hil_config_refuse_flag(r, "conv_bias"));
    HIL_TRY(hil_config_size(r, "conv_L_cache", NULL, KERNEL_MAX, &c->conv.kernel));
    HIL_TRY(hil_config_sliding_window(r, true));
    if (!c->window) return hil_config_refuse(r, "sliding_window", "is null: it must be a number");
    HIL_TRY(hil_config_bool(r, "use_sandwich_norm", &posts));
    HIL_TRY(hil_config_bool(r, "use_attention_gate", &gates));
    c->no_post_norms = !posts;
    c->own_gate = gates ? HIL_OWN_GATE_HEAD : HIL_OWN_GATE_NONE;
    set_layers(c);
    return hil_config_layer_types(r);
}

const hil_arch hil_arch_lfm3 = {
    .name = "lfm3",
    .class_name = "Lfm3ForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .norm_eps = 1e-5,
                            .qk_norm = HIL_QK_NORM_HEAD,
                            .frozen_pad = true,
                            .tied = true,
                            .max_positions = 128000,
                            .intermediate = 7680,
                            .heads = 16,
                            .kv_heads = 4,
                            .head_dim = 128,
                            .window = 256,
                            .rope = {.kind = HIL_ROPE_PROPORTIONAL, .theta = 1e6, .partial = 0.5},
                            .conv = {.kernel = 7},
                            .bos = 124894,
                            .eos = 124900,
                            .pad = 124893},
    .names =
        &(const hil_arch_names){
            .embedding = "model.embed_tokens",
            .blocks = "model.layers.",
            .norm = "model.embedding_norm",
            .head = "lm_head",
            HIL_ARCH_ATTENTION,
            .own_gate = "self_attn.g_proj",
            .attention_norm = "operator_norm",
            .attention_post_norm = "post_operator_norm",
            .mlp_norm = "ffn_norm",
            .mlp_post_norm = "post_ffn_norm",
            .gate = "feed_forward.w1",
            .up = "feed_forward.w3",
            .down = "feed_forward.w2",
        },
    .stacks = (const hil_arch_stack[]){{.tensor = "self_attn.gate_proj.weight",
                                        .param = "self_attn.g_proj.weight",
                                        .parts = 1,
                                        .saved = true},
                                       {.tensor = NULL}},
    .read = read_lfm3,
    .build = hil_build_decoder,
};
