/* deepseek_v32.c - DeepSeek-V3.2 and GLM-5: V3 with an indexer beside each latent attention; in
   GLM-5 some layers have that of a layer before. */
#include "model/build.h"

#include <string.h>

/* What transformers does not compute, whatever the file says. */
static hil_status refuse_others(const hil_config_reader *r)
{
    const json_t *types = json_object_get(r->object, "layer_types");
    for (size_t i = 0; i < json_array_size(types); ++i) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || (strcmp(type, "indexed_attention") != 0 &&
                      strcmp(type, "deepseek_sparse_attention") != 0))
            return hil_config_refuse(r, "layer_types", "has other entries than indexed_attention");
    }
    bool pairs = true;
    HIL_TRY(hil_config_bool(r, "rope_interleave", &pairs));
    if (!pairs) return hil_config_refuse(r, "rope_interleave", "is false, which is not supported");
    return HIL_OK;
}

static hil_status read_indexer(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_indexer_config *x = &c->indexer;
    HIL_TRY(hil_config_size(r, "index_n_heads", NULL, HIL_CONFIG_HEADS_MAX, &x->heads));
    HIL_TRY(hil_config_size(r, "index_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &x->head_dim));
    if (x->head_dim < c->head_dim)
        return hil_config_refuse(r, "index_head_dim", "is below \"qk_rope_head_dim\"");
    if (x->heads * x->head_dim > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "index_head_dim", "times its heads is too large");
    return hil_config_size(r, "index_topk", NULL, HIL_CONFIG_POSITIONS_MAX, &x->chosen);
}

static hil_status read_v32(const hil_config_reader *r)
{
    HIL_TRY(refuse_others(r));
    HIL_TRY(hil_config_latent(r));
    if (!r->config->latent.q_rank) return hil_config_refuse(r, "q_lora_rank", "must be a number");
    HIL_TRY(hil_config_grouped_mixture(r, 1, 3));
    HIL_TRY(hil_config_mlp_types(r));
    return read_indexer(r);
}

/* The number of experts has three names. */
static hil_status read_deepseek(const hil_config_reader *r)
{
    static const char *const names[][2] = {
        {"num_local_experts", "n_routed_experts"}, {"num_experts", "n_routed_experts"}, {NULL}};
    json_t *object;
    HIL_TRY(hil_config_rename(r, names, &object));
    hil_status status = read_v32(&(const hil_config_reader){object, r->what, r->config});
    json_decref(object);
    return status;
}

static void share(hil_config *c, int64_t layer)
{
    c->indexer.shared[layer / 64] |= (uint64_t)1 << (layer % 64);
}

/* A list of full and shared, or a text of F and S, of these layers and maybe more. */
static hil_status read_kinds(const hil_config_reader *r, const char *key, const json_t *kinds)
{
    hil_config *c = r->config;
    const char *letters = json_string_value(kinds);
    size_t count = letters ? strlen(letters) : json_array_size(kinds);
    if ((int64_t)count < c->layers)
        return hil_config_refuse(r, key, "must have an entry per layer");
    for (size_t n = 0; n < (size_t)c->layers; ++n) {
        const char *kind = json_string_value(json_array_get(kinds, n));
        bool full = letters ? letters[n] == 'F' : kind && strcmp(kind, "full") == 0;
        bool shared = letters ? letters[n] == 'S' : kind && strcmp(kind, "shared") == 0;
        if (!full && !shared)
            return hil_config_refuse(r, key, "has other entries than full and shared");
        if (shared) share(c, (int64_t)n);
    }
    return HIL_OK;
}

/* Every `period`-th layer from the last of the first `offset` on has an indexer of its own, and so
   have those before it. */
static hil_status read_period(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t period = 1, offset = 2;
    HIL_TRY(hil_json_int(r->object, "index_topk_freq", r->what, &period));
    HIL_TRY(hil_json_int(r->object, "index_skip_topk_offset", r->what, &offset));
    if (period <= 1) return HIL_OK;
    if (offset < 1) return hil_config_refuse(r, "index_skip_topk_offset", "must be 1 or more");
    for (int64_t n = offset; n < c->layers; ++n)
        if ((n - offset + 1) % period) share(c, n);
    return HIL_OK;
}

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

static hil_status read_sharing(const hil_config_reader *r)
{
    const json_t *types = json_object_get(r->object, "indexer_types");
    const json_t *pattern = json_object_get(r->object, "index_topk_pattern");
    if (is_given(types))
        HIL_TRY(read_kinds(r, "indexer_types", types));
    else if (is_given(pattern))
        HIL_TRY(read_kinds(r, "index_topk_pattern", pattern));
    else
        HIL_TRY(read_period(r));
    if (!(r->config->indexer.shared[0] & 1)) return HIL_OK;
    return hil_config_refuse(r, "indexer_types", "lets the first layer share, but with none");
}

static hil_status read_glm(const hil_config_reader *r)
{
    HIL_TRY(read_deepseek(r));
    return read_sharing(r);
}

const hil_arch hil_arch_deepseek_v32 = {
    .name = "deepseek_v32",
    .class_name = "DeepseekV32ForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .frozen_pad = true,
                            .kv_heads = 128,
                            .head_dim = 64,
                            .max_positions = 163840,
                            .latent = {.q_rank = 1536, .kv_rank = 512, .still = 128, .value = 128},
                            .indexer = {.chosen = 2048, .heads = 64, .head_dim = 128},
                            .mixture = {.experts = 256, HIL_ARCH_V3_CHOICE},
                            .bos = 0,
                            .eos = 1,
                            .pad = -1},
    .names = &hil_arch_deepseek_names,
    .read = read_deepseek,
    HIL_ARCH_GROUPED,
};

const hil_arch hil_arch_glm_moe_dsa = {
    .name = "glm_moe_dsa",
    .class_name = "GlmMoeDsaForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .norm_eps = 1e-5,
                            .frozen_pad = true,
                            .kv_heads = 64,
                            .head_dim = 64,
                            .max_positions = 202752,
                            .latent = {.q_rank = 2048, .kv_rank = 512, .still = 192, .value = 256},
                            .indexer = {.chosen = 2048, .heads = 32, .head_dim = 128},
                            .mixture = {HIL_ARCH_SIGMOIDS, .experts = 256, .chosen = 8,
                                        .width = 2048, .normalized = true, .scale = 2.5},
                            .bos = 0,
                            .eos = 1,
                            .pad = -1},
    .names = &hil_arch_deepseek_names,
    .read = read_glm,
    HIL_ARCH_GROUPED,
};
