/* lfm2.c - LFM2: layers with a gated convolution over a few positions, and some with grouped
   attention, whose queries and keys are normalised. */
#include "model/build.h"

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

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "norm_eps"));
    c->dropout_attention = 0; /* there is none in transformers */
    HIL_TRY(hil_config_bool(r, "tie_embedding", &c->tied));
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(hil_config_refuse_flag(r, "conv_bias"));
    HIL_TRY(hil_config_size(r, "conv_L_cache", NULL, KERNEL_MAX, &c->conv.kernel));
    HIL_TRY(read_width(r));
    return read_layers(r);
}

const hil_arch hil_arch_lfm2 = {
    .name = "lfm2",
    .class_name = "Lfm2ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .frozen_pad = true,
                                    .tied = true,
                                    .max_positions = 128000,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .intermediate = 12288,
                                    .rope = {.theta = 1000000},
                                    .conv = {.kernel = 3},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = 0},
    .names =
        &(const hil_arch_names){
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
        },
    .read = read,
    .build = hil_build_decoder,
};
