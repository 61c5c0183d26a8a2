/* ernie.c - ERNIE 4.5: Llama, of whose heads neighbours turn together; with a mixture of experts
   whose choice a bias corrects. */
#include "model/build.h"

/* transformers applies no dropout to attention here, whatever attention_dropout says. */
static hil_status read_common(const hil_config_reader *r)
{
    HIL_TRY(hil_config_read_usual(r));
    r->config->dropout_attention = 0;
    return HIL_OK;
}

static hil_status read_ernie(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_bool(r, "use_bias", &c->mlp_bias));
    c->attention_bias = c->output_bias = c->mlp_bias;
    return read_common(r);
}

/* Layers from moe_layer_start_index to moe_layer_end_index have experts; of these every
   moe_layer_interval-th, counted from the first layer. -1: to the last. */
static hil_status read_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t first = 1, last = -1, step = 1;
    HIL_TRY(hil_json_int(r->object, "moe_layer_start_index", r->what, &first));
    HIL_TRY(hil_json_int(r->object, "moe_layer_end_index", r->what, &last));
    HIL_TRY(hil_config_size(r, "moe_layer_interval", NULL, HIL_LAYERS_MAX, &step));
    for (int64_t n = 0; n < c->layers; ++n)
        if (n < first || (last != -1 && n > last) || (n + 1) % step)
            c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    return HIL_OK;
}

/* The chosen weights are divided by their sum, which is always above moe_norm_min where that is
   small. The auxiliary loss counts experts as chosen without the bias, which is not done here. */
static hil_status read_moe(const hil_config_reader *r)
{
    hil_mixture_config *m = &r->config->mixture;
    int64_t shared = 2;
    double least = 0;
    HIL_TRY(read_common(r));
    HIL_TRY(hil_config_refuse_flag(r, "use_bias"));
    HIL_TRY(hil_config_refuse_flag(r, "output_router_logits"));
    HIL_TRY(hil_config_real(r, "moe_norm_min", 0, 1e-6, &least));
    HIL_TRY(hil_config_size(r, "moe_k", NULL, INT32_MAX, &m->chosen));
    HIL_TRY(hil_config_mixture(r, "moe_num_experts"));
    HIL_TRY(hil_json_int(r->object, "moe_num_shared_experts", r->what, &shared));
    if (shared < 0 || shared > 1024)
        return hil_config_refuse(r, "moe_num_shared_experts", "must be from 0 to 1024");
    m->shared = shared * m->width;
    return read_layers(r);
}

#define ERNIE                                                                                      \
    .activation = HIL_SILU, .norm_eps = 1e-5, .interleaved = true, .tied = true,                   \
    .frozen_pad = true, .max_positions = 131072, .rope = {.theta = 500000}, .bos = 1, .eos = 2,    \
    .pad = 0

const hil_arch hil_arch_ernie = {
    .name = "ernie4_5",
    .class_name = "Ernie4_5ForCausalLM",
    .defaults = &(const hil_config){ERNIE, .kv_heads = 2, .head_dim = 128},
    .names = &hil_arch_usual_names,
    .read = read_ernie,
    .build = hil_build_decoder,
};

/* Files hold the bias as a matrix of one row. */
static const hil_arch_stack stacks[] = {
    HIL_ARCH_STACKED("mlp.experts", "mlp.experts.*.gate_proj.weight",
                     "mlp.experts.*.up_proj.weight", "mlp.experts.*.down_proj.weight"),
    {.tensor = "mlp.moe_statics.e_score_correction_bias",
     .param = "mlp.gate.e_score_correction_bias",
     .parts = 1,
     .flat = HIL_FLAT_ROW,
     .saved = true},
    {.tensor = NULL},
};

const hil_arch hil_arch_ernie_moe = {
    .name = "ernie4_5_moe",
    .class_name = "Ernie4_5_MoeForCausalLM",
    .defaults = &(const hil_config){ERNIE, .kv_heads = 4,
                                    .mixture = {.experts = 64,
                                                .chosen = 6,
                                                .width = 1536,
                                                .normalized = true,
                                                .corrected = true}},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){HIL_ARCH_SHARED_EXPERTS},
    .stacks = stacks,
    .fused = true,
    .read = read_moe,
    .build = hil_build_decoder,
};
