/* hunyuan.c - Hunyuan: Llama whose queries and keys are normalised after they turn. With a mixture
   all tokens have one more expert. Hy3 normalises them before, and chooses experts by sigmoids and
   a bias. */
#include "model/build.h"

#include <math.h>
#include <string.h>

static bool is_dynamic(const hil_config_reader *r)
{
    static const char *const objects[] = {"rope_parameters", "rope_scaling"};
    static const char *const keys[] = {"rope_type", "type"};
    for (int i = 0; i < 4; ++i) {
        const json_t *rope = json_object_get(r->object, objects[i / 2]);
        const char *type = json_string_value(json_object_get(rope, keys[i % 2]));
        if (type && strcmp(type, "dynamic") == 0) return true;
    }
    return false;
}

/* A fixed alpha beside the type "dynamic" raises the base of the frequencies. */
static hil_status read_alpha(const hil_config_reader *r)
{
    hil_config *c = r->config;
    double alpha = 0;
    HIL_TRY(hil_config_rope_real(r, "alpha", &alpha));
    if (!(alpha > 0)) return HIL_OK;
    if (c->rope.kind != HIL_ROPE_DEFAULT || !is_dynamic(r) || c->head_dim < 4)
        return hil_config_refuse(r, "alpha", "needs the type dynamic and heads of 4 or more");
    c->rope.theta *= pow(alpha, (double)c->head_dim / (double)(c->head_dim - 2));
    return HIL_OK;
}

static hil_status read_dense(const hil_config_reader *r)
{
    bool normalized = true;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_refuse_flag(r, "use_cla"));
    HIL_TRY(hil_config_bool(r, "use_qk_norm", &normalized));
    if (!normalized) return hil_config_refuse(r, "use_qk_norm", "must be true");
    return read_alpha(r);
}

/* A number, or a list of one for each layer, which must be the same. */
static hil_status read_same(const hil_config_reader *r, const char *key, int64_t *out)
{
    const json_t *list = json_object_get(r->object, key);
    if (!json_is_array(list)) return hil_config_size(r, key, NULL, HIL_CONFIG_WIDTH_MAX, out);
    for (size_t i = 0; i < json_array_size(list); ++i) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item) || !json_equal(item, json_array_get(list, 0)))
            return hil_config_refuse(r, key, "must be the same number in all layers");
        *out = json_integer_value(item);
    }
    if (*out >= 1 && *out <= HIL_CONFIG_WIDTH_MAX) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is %lld; it must be from 1 to %lld", r->what, key,
                    (long long)*out, (long long)HIL_CONFIG_WIDTH_MAX);
}

static hil_status read_moe(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_mixture_config *m = &c->mixture;
    int64_t shared = 1;
    HIL_TRY(read_dense(r));
    m->width = m->shared = c->intermediate;
    HIL_TRY(read_same(r, "num_experts", &m->experts));
    HIL_TRY(read_same(r, "moe_topk", &m->chosen));
    HIL_TRY(read_same(r, "moe_intermediate_size", &m->width));
    HIL_TRY(read_same(r, "num_shared_expert", &shared));
    HIL_TRY(hil_config_refuse_number(r, "moe_layer_num_skipped"));
    if (m->width != c->intermediate)
        return hil_config_refuse(r, "moe_intermediate_size", "must be \"intermediate_size\"");
    if (shared != 1) return hil_config_refuse(r, "num_shared_expert", "must be 1");
    return hil_config_check_mixture(r);
}

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_MLP,
    HIL_ARCH_PROJECTIONS,
    .attention_norm = "input_layernorm",
    .q_norm = "self_attn.query_layernorm",
    .k_norm = "self_attn.key_layernorm",
    .mlp_norm = "post_attention_layernorm",
};

#define HUNYUAN                                                                                    \
    .activation = HIL_SILU, .norm_eps = 1e-5, .qk_norm = HIL_QK_NORM_TURNED, .frozen_pad = true,   \
    .max_positions = 2048, .bos = 1, .eos = 2, .pad = 0

const hil_arch hil_arch_hunyuan = {
    .name = "hunyuan_v1_dense",
    .class_name = "HunYuanDenseV1ForCausalLM",
    .defaults = &(const hil_config){HUNYUAN},
    .names = &names,
    .read = read_dense,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_hunyuan_moe = {
    .name = "hunyuan_v1_moe",
    .class_name = "HunYuanMoEV1ForCausalLM",
    .defaults =
        &(const hil_config){HUNYUAN, .mixture = {.experts = 1, .chosen = 1, .normalized = true}},
    .names = &names,
    .mixture =
        &(const hil_mixture_names){
            .router = "mlp.gate.wg",
            .gate = "mlp.experts.*.gate_proj",
            .up = "mlp.experts.*.up_proj",
            .down = "mlp.experts.*.down_proj",
            .shared_gate = "mlp.shared_mlp.gate_proj",
            .shared_up = "mlp.shared_mlp.up_proj",
            .shared_down = "mlp.shared_mlp.down_proj",
        },
    .stacks = hil_arch_usual_stacks,
    .fused = true,
    .read = read_moe,
    .build = hil_build_decoder,
};

static hil_status read_v3(const hil_config_reader *r)
{
    hil_mixture_config *m = &r->config->mixture;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_refuse_flag(r, "mlp_bias"));
    HIL_TRY(hil_config_shared_mixture(r, 1));
    HIL_TRY(hil_config_real(r, "router_scaling_factor", 1e-9, 1e9, &m->scale));
    m->dense[0] = 1;
    return hil_config_mlp_types(r);
}

/* Files have the names of other code; transformers has its own in memory. */
static const hil_arch_stack v3_stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight"),
    {.tensor = "mlp.gate.weight", .param = "mlp.router.gate.weight", .parts = 1},
    {.tensor = "mlp.e_score_correction_bias", .param = "mlp.expert_bias", .parts = 1},
    {.tensor = "mlp.shared_experts.gate_proj.weight",
     .param = "mlp.shared_mlp.gate_proj.weight",
     .parts = 1},
    {.tensor = "mlp.shared_experts.up_proj.weight",
     .param = "mlp.shared_mlp.up_proj.weight",
     .parts = 1},
    {.tensor = "mlp.shared_experts.down_proj.weight",
     .param = "mlp.shared_mlp.down_proj.weight",
     .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_hy_v3 = {
    .name = "hy_v3",
    .class_name = "HYV3ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .norm_eps = 1e-5,
                                    .init_std = 0.006,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .max_positions = 131072,
                                    .rope = {.theta = 11158840},
                                    .mixture = {.experts = 192,
                                                .chosen = 8,
                                                .width = 1536,
                                                .sigmoid = true,
                                                .corrected = true,
                                                .normalized = true,
                                                .scale = 2.826},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){.router = "mlp.router.gate",
                                          .gate = "mlp.experts.*.gate_proj",
                                          .up = "mlp.experts.*.up_proj",
                                          .down = "mlp.experts.*.down_proj",
                                          .correction = "mlp.expert_bias",
                                          .shared_gate = "mlp.shared_mlp.gate_proj",
                                          .shared_up = "mlp.shared_mlp.up_proj",
                                          .shared_down = "mlp.shared_mlp.down_proj"},
    .stacks = v3_stacks,
    .read = read_v3,
    .build = hil_build_decoder,
};
