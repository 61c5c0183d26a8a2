/* granite.c - Granite 3: Llama with factors of embeddings, scores, residuals and logits. HyperCLOVA
   X also normalises what its parts give; Granite SWA has windows and sinks. */
#include "model/build.h"

#include <math.h>

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double logits = 1;
    HIL_TRY(hil_config_read_llama(r));
    HIL_TRY(hil_config_real(r, "embedding_multiplier", 1e-9, 1e9, &c->embedding_scale));
    HIL_TRY(hil_config_real(r, "attention_multiplier", 1e-9, 1e9, &c->attention_scale));
    HIL_TRY(hil_config_real(r, "residual_multiplier", 1e-9, 1e9, &c->residual_scale));
    HIL_TRY(hil_config_real(r, "logits_scaling", 1e-9, 1e9, &logits));
    c->logit_scale = 1 / logits;
    return HIL_OK;
}

const hil_arch hil_arch_granite = {
    .name = "granite",
    .class_name = "GraniteForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .embedding_scale = 1,
                                    .attention_scale = 1,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1,
                                    .max_positions = 2048,
                                    .residual_scale = 1},
    .names = &hil_arch_usual_names,
    .read = read,
    .build = hil_build_decoder,
};

/* Logits are multiplied by their factor here. */
static hil_status read_hyperclovax(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool post = true;
    HIL_TRY(read(r));
    if (!json_is_number(json_object_get(r->object, "attention_multiplier"))) c->attention_scale = 0;
    c->logit_scale = 1;
    HIL_TRY(hil_config_real(r, "logits_scaling", 1e-9, 1e9, &c->logit_scale));
    HIL_TRY(hil_config_bool(r, "use_post_norm", &post));
    c->no_post_norms = !post;
    if (c->hidden % c->heads != 0)
        return hil_config_refuse(r, "num_attention_heads", "does not divide \"hidden_size\"");
    return HIL_OK;
}

static const hil_arch_names post_names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_PROJECTIONS,
    HIL_ARCH_MLP,
    .attention_norm = "input_layernorm",
    .attention_post_norm = "post_norm1",
    .mlp_norm = "post_attention_layernorm",
    .mlp_post_norm = "post_norm2",
};

const hil_arch hil_arch_hyperclovax = {
    .name = "hyperclovax",
    .class_name = "HyperCLOVAXForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .embedding_scale = 1,
                                    .residual_scale = 1,
                                    .attention_scale = 1,
                                    .max_positions = 2048,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &post_names,
    .read = read_hyperclovax,
    .build = hil_build_decoder,
};

/* layer_rope_theta: the base of each layer, the same in all with a window, and in all others; 0:
   the layer does not turn. */
static hil_status read_thetas(const hil_config_reader *r)
{
    hil_config *c = r->config;
    const json_t *list = json_object_get(r->object, "layer_rope_theta");
    double found[2] = {0};
    if (!list || json_is_null(list)) return HIL_OK;
    if (!json_is_array(list) || (int64_t)json_array_size(list) < c->layers)
        return hil_config_refuse(r, "layer_rope_theta", "must be a list of a number per layer");
    for (int64_t n = 0; n < c->layers; ++n) {
        double theta = json_number_value(json_array_get(list, (size_t)n));
        double *kind = &found[hil_config_window(c, n) > 0];
        if (!json_is_number(json_array_get(list, (size_t)n)) || !(theta >= 0 && theta < 1e30))
            return hil_config_refuse(r, "layer_rope_theta", "has an entry that is no base");
        if (theta == 0) c->still[n / 64] |= (uint64_t)1 << (n % 64);
        if (theta == 0) continue;
        if (*kind > 0 && *kind != theta)
            return hil_config_refuse(r, "layer_rope_theta", "differs in layers of one kind");
        *kind = theta;
    }
    c->local_rope = c->rope;
    c->has_local = true;
    if (found[0] > 0) c->rope.theta = found[0];
    if (found[1] > 0) c->local_rope.theta = found[1];
    return HIL_OK;
}

hil_status hil_config_granite_windows(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sliding_window(r, true));
    if (!c->window) return hil_config_refuse(r, "sliding_window", "is null: it must be a number");
    for (int64_t n = 0; n < c->layers; ++n)
        if (n % 4) c->slides[n / 64] |= (uint64_t)1 << (n % 64);
    HIL_TRY(hil_config_layer_types(r));
    return read_thetas(r);
}

static hil_status read_swa(const hil_config_reader *r)
{
    HIL_TRY(read(r));
    return hil_config_granite_windows(r);
}

static const hil_arch_names sink_names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_PROJECTIONS,
    HIL_ARCH_MLP,
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .sinks = "self_attn.sinks",
};

const hil_arch hil_arch_granite_swa = {
    .name = "granite_swa",
    .class_name = "GraniteSWAForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .tied = true,
                                    .frozen_pad = true,
                                    .kv_heads = 4,
                                    .window = 128,
                                    .embedding_scale = 1,
                                    .attention_scale = 1,
                                    .bos = 100257,
                                    .eos = 100257,
                                    .pad = -1,
                                    .max_positions = 8192,
                                    .residual_scale = 1},
    .names = &sink_names,
    .read = read_swa,
    .build = hil_build_decoder,
};
