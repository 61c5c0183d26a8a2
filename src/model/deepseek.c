/* deepseek.c - DeepSeek-V2 and V3: latent attention, and experts that are chosen from the best
   groups of them. V3 chooses by sigmoids and a bias that is not trained. GLM-4.7-Flash is V3 with
   other sizes; A.X K1 normalises what mixtures give. Youtu-LLM and MiniCPM3 have the attention
   without experts. In Mistral 4 queries grow with their position. */
#include "model/build.h"

#include <math.h>
#include <string.h>

const hil_arch_names hil_arch_deepseek_names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_MLP,
    .attention_norm = "input_layernorm",
    .o = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
};

/* The sizes of heads. head_dim is what turns of them, whatever the file says. */
static hil_status read_heads(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_latent_config *l = &c->latent;
    int64_t turning = c->head_dim;
    if (json_is_null(json_object_get(r->object, "q_lora_rank")))
        l->q_rank = 0;
    else
        HIL_TRY(hil_config_size(r, "q_lora_rank", NULL, HIL_CONFIG_WIDTH_MAX, &l->q_rank));
    HIL_TRY(hil_config_size(r, "kv_lora_rank", NULL, HIL_CONFIG_WIDTH_MAX, &l->kv_rank));
    HIL_TRY(hil_config_size(r, "qk_nope_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &l->still));
    HIL_TRY(hil_config_size(r, "qk_rope_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &turning));
    HIL_TRY(hil_config_size(r, "v_head_dim", NULL, HIL_CONFIG_HEADS_MAX, &l->value));
    HIL_TRY(hil_config_sizes(r, false));
    c->head_dim = turning;
    if (turning % 2) return hil_config_refuse(r, "qk_rope_head_dim", "must be even");
    if (l->value > hil_config_key_dim(c))
        return hil_config_refuse(r, "v_head_dim", "is larger than the heads of keys");
    if (c->kv_heads != c->heads)
        return hil_config_refuse(r, "num_key_value_heads",
                                 "is not that of \"num_attention_heads\"");
    if (c->heads * hil_config_key_dim(c) > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "qk_nope_head_dim", "times the number of heads is too large");
    return HIL_OK;
}

/* Of Mistral 4 the part of a head that turns may be said twice. */
static hil_status read_turning(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t turning = c->head_dim;
    if (!(c->rope.partial > 0)) return hil_config_rope(r);
    c->head_dim = hil_config_key_dim(c);
    c->rope.partial = (double)turning / (double)c->head_dim;
    HIL_TRY(hil_config_rope(r));
    if (hil_config_rope_dims(c, &c->rope) != turning)
        return hil_config_refuse(r, "partial_rotary_factor",
                                 "of a head is not \"qk_rope_head_dim\"");
    c->head_dim = turning;
    c->rope.partial = 0;
    return HIL_OK;
}

/* transformers scales scores by it with every scaling of rotary embedding. */
static hil_status refuse_scale(const hil_config_reader *r)
{
    const hil_rope_config *rope = &r->config->rope;
    double scale = 0;
    if (rope->kind == HIL_ROPE_YARN || (rope->kind == HIL_ROPE_DEFAULT && !rope->dynamic))
        return HIL_OK;
    HIL_TRY(hil_config_rope_real(r, "mscale_all_dim", &scale));
    return scale == 0 ? HIL_OK : hil_config_refuse(r, "mscale_all_dim", "needs the type yarn");
}

hil_status hil_config_latent(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(read_heads(r));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_refuse_flag(r, "mlp_bias"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(read_turning(r));
    HIL_TRY(refuse_scale(r));
    c->attention_scale = 1 / sqrt((double)hil_config_key_dim(c));
    if (c->rope.score_factor > 0) c->attention_scale *= c->rope.score_factor;
    return HIL_OK;
}

hil_status hil_config_latent_head(const hil_config_reader *r, int64_t usual)
{
    HIL_TRY(hil_config_size(r, "head_dim", NULL, HIL_CONFIG_HEADS_MAX, &usual));
    if (usual == r->config->head_dim) return HIL_OK;
    return hil_config_refuse(r, "head_dim", "is not \"qk_rope_head_dim\"");
}

/* transformers divides by no sum here, whatever norm_topk_prob says. */
static hil_status read_v2(const hil_config_reader *r)
{
    hil_mixture_config *m = &r->config->mixture;
    const char *method = "greedy";
    HIL_TRY(hil_json_string(r->object, "topk_method", r->what, &method));
    HIL_TRY(hil_config_latent(r));
    HIL_TRY(hil_config_grouped_mixture(r, 2, 0));
    m->normalized = false;
    if (strcmp(method, "greedy") == 0) m->groups = 0;
    if (m->groups || strcmp(method, "greedy") == 0) return HIL_OK;
    return hil_config_refuse(r, "topk_method",
                             "must be greedy, or group_limited_greedy with \"n_group\"");
}

/* rope_interleave; null is false in transformers. */
static hil_status read_pairs(const hil_config_reader *r)
{
    bool *pairs = &r->config->interleaved;
    if (json_is_null(json_object_get(r->object, "rope_interleave"))) *pairs = false;
    return hil_config_bool(r, "rope_interleave", pairs);
}

/* `dense`: how many layers have no experts where keys are absent. */
static hil_status read_grouped(const hil_config_reader *r, int64_t dense)
{
    HIL_TRY(read_pairs(r));
    HIL_TRY(hil_config_latent(r));
    return hil_config_grouped_mixture(r, 1, dense);
}

static hil_status read_v3(const hil_config_reader *r)
{
    return read_grouped(r, 3);
}

static hil_status read_glm4_lite(const hil_config_reader *r)
{
    HIL_TRY(read_grouped(r, 1));
    return hil_config_mlp_types(r);
}

const hil_arch hil_arch_deepseek_v2 = {
    .name = "deepseek_v2",
    .class_name = "DeepseekV2ForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .frozen_pad = true,
                            .head_dim = 64,
                            .max_positions = 2048,
                            .latent = {.q_rank = 1536, .kv_rank = 512, .still = 128, .value = 128},
                            .mixture = {.experts = 64, .width = 1407},
                            .bos = 1,
                            .eos = 2,
                            .pad = -1},
    .names = &hil_arch_deepseek_names,
    .read = read_v2,
    HIL_ARCH_GROUPED,
};

static const hil_config v3_defaults = {
    .activation = HIL_SILU,
    .interleaved = true,
    .frozen_pad = true,
    .kv_heads = 128,
    .head_dim = 64,
    .max_positions = 4096,
    .latent = {.q_rank = 1536, .kv_rank = 512, .still = 128, .value = 128},
    .mixture = {.experts = 256, HIL_ARCH_V3_CHOICE},
    .bos = 0,
    .eos = 1,
    .pad = -1};

const hil_arch hil_arch_deepseek_v3 = {
    .name = "deepseek_v3",
    .class_name = "DeepseekV3ForCausalLM",
    .defaults = &v3_defaults,
    .names = &hil_arch_deepseek_names,
    .read = read_v3,
    HIL_ARCH_GROUPED,
};

/* The same under another name. */
const hil_arch hil_arch_kimi_k2 = {
    .name = "kimi_k2",
    .class_name = "DeepseekV3ForCausalLM",
    .defaults = &v3_defaults,
    .names = &hil_arch_deepseek_names,
    .read = read_v3,
    HIL_ARCH_GROUPED,
};

const hil_arch hil_arch_glm4_moe_lite = {
    .name = "glm4_moe_lite",
    .class_name = "Glm4MoeLiteForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .norm_eps = 1e-5,
                            .frozen_pad = true,
                            .kv_heads = 20,
                            .head_dim = 64,
                            .max_positions = 202752,
                            .latent = {.q_rank = 768, .kv_rank = 512, .still = 192, .value = 256},
                            .mixture = {HIL_ARCH_SIGMOIDS, .experts = 64, .chosen = 4,
                                        .width = 1536, .normalized = true, .scale = 1.8},
                            .bos = 0,
                            .eos = 1,
                            .pad = -1},
    .names = &hil_arch_deepseek_names,
    .read = read_glm4_lite,
    HIL_ARCH_GROUPED,
};

/* Queries always come through a latent vector. */
static hil_status read_axk1(const hil_config_reader *r)
{
    const json_t *rank = json_object_get(r->object, "q_lora_rank");
    if (rank && json_is_null(rank))
        return hil_config_refuse(r, "q_lora_rank", "is null: it must be a number");
    if (json_is_null(json_object_get(r->object, "norm_topk_prob")))
        r->config->mixture.normalized = false;
    HIL_TRY(read_grouped(r, 1));
    HIL_TRY(hil_config_latent_head(r, r->config->head_dim));
    return hil_config_mlp_types(r);
}

const hil_arch hil_arch_axk1 = {
    .name = "axk1",
    .class_name = "AXK1ForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .frozen_pad = true,
                            .mixture_post_norms = true,
                            .kv_heads = 64,
                            .head_dim = 64,
                            .max_positions = 32768,
                            .latent = {.q_rank = 1536, .kv_rank = 512, .still = 128, .value = 128},
                            .mixture = {.experts = 192, HIL_ARCH_V3_CHOICE},
                            .bos = 163691,
                            .eos = 163691,
                            .pad = -1},
    .names =
        &(const hil_arch_names){
            HIL_ARCH_ENDS,
            HIL_ARCH_MLP,
            .attention_norm = "input_layernorm",
            .o = "self_attn.o_proj",
            .mlp_norm = "post_attention_layernorm",
            .mlp_post_norm = "post_mlp_layernorm",
        },
    .read = read_axk1,
    HIL_ARCH_GROUPED,
};

static hil_status read_mistral4_keys(const hil_config_reader *r)
{
    if (json_is_null(json_object_get(r->object, "norm_topk_prob")))
        r->config->mixture.normalized = false;
    return read_grouped(r, 0);
}

static hil_status read_mistral4(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_growing(r, read_mistral4_keys));
    if (c->latent.still % 2) return hil_config_refuse(r, "qk_nope_head_dim", "must be even");
    c->growth = (hil_growth_config){c->rope.growth, c->rope.original_positions, 0};
    c->rope.growth = 0;
    return HIL_OK;
}

const hil_arch hil_arch_mistral4 = {
    .name = "mistral4",
    .class_name = "Mistral4ForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .frozen_pad = true,
                            .kv_heads = 32,
                            .head_dim = 64,
                            .max_positions = 1048576,
                            .rope = {HIL_ARCH_GROWING, .theta = 10000, .factor = 128,
                                     .original_positions = 8192, .score_factor = 2.2058280296038424,
                                     .partial = 1},
                            .latent = {.q_rank = 1024, .kv_rank = 256, .still = 64, .value = 128},
                            .mixture = {.experts = 128,
                                        .chosen = 4,
                                        .width = 2048,
                                        .normalized = true,
                                        .pairs = true,
                                        .groups = 1,
                                        .groups_chosen = 1},
                            .bos = 1,
                            .eos = 2,
                            .pad = 11},
    .names = &hil_arch_deepseek_names,
    .read = read_mistral4,
    .mixture = &(const hil_mixture_names){HIL_ARCH_SHARED_EXPERTS},
    .stacks = hil_arch_saved_stacks,
    .build = hil_build_decoder,
};

static hil_status read_youtu(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(read_pairs(r));
    HIL_TRY(hil_config_latent(r));
    if (!json_is_number(json_object_get(r->object, "initializer_range")))
        c->init_std = 2 / sqrt(5 * (double)c->hidden);
    c->embedding_std = 2 * c->init_std;
    return hil_config_real(r, "embedding_initializer_range", 0, 100, &c->embedding_std);
}

/* Null: no factor. */
static hil_status read_minicpm3(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double depth = 1.4, base = 256;
    bool no_depth = json_is_null(json_object_get(r->object, "scale_depth"));
    bool no_base = json_is_null(json_object_get(r->object, "dim_model_base"));
    const json_t *value = json_object_get(r->object, "v_head_dim");
    HIL_TRY(hil_config_sizes(r, false));
    c->latent.value = c->hidden / c->heads;
    if (value && !json_is_null(value)) c->latent.value = 0;
    HIL_TRY(hil_config_latent(r));
    HIL_TRY(hil_config_real(r, "scale_emb", 1e-9, 1e9, &c->embedding_scale));
    HIL_TRY(hil_config_real(r, "scale_depth", 1e-9, 1e9, &depth));
    HIL_TRY(hil_config_real(r, "dim_model_base", 1e-9, 1e9, &base));
    c->residual_scale = no_depth ? 0 : depth / sqrt((double)c->layers);
    c->logit_scale = no_base ? 0 : base / (double)c->hidden;
    return HIL_OK;
}

const hil_arch hil_arch_youtu = {
    .name = "youtu",
    .class_name = "YoutuForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_SILU,
                            .interleaved = true,
                            .tied = true,
                            .frozen_pad = true,
                            .kv_heads = 16,
                            .head_dim = 64,
                            .max_positions = 131072,
                            .latent = {.q_rank = 1536, .kv_rank = 512, .still = 128, .value = 128},
                            .bos = 128000,
                            .eos = 128001,
                            .pad = -1},
    .names = &hil_arch_deepseek_names,
    .read = read_youtu,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_minicpm3 = {
    .name = "minicpm3",
    .class_name = "MiniCPM3ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .init_std = 0.1,
                                    .tied = true,
                                    .frozen_pad = true,
                                    .kv_heads = 40,
                                    .head_dim = 32,
                                    .max_positions = 32768,
                                    .embedding_scale = 12,
                                    .latent = {.q_rank = 768, .kv_rank = 256, .still = 64},
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &hil_arch_deepseek_names,
    .read = read_minicpm3,
    .build = hil_build_decoder,
};
