/* nemotron_h.c - Nemotron-H and Nemotron 3: each layer has a state space, attention without
   positions, an MLP without gates, or a mixture of such. */
#include "model/build.h"

#include <string.h>

static void set(uint64_t *layers, int64_t n)
{
    layers[n / 64] |= (uint64_t)1 << (n % 64);
}

/* Layer n; `type` is a word of layers_block_type, or a letter of hybrid_override_pattern. */
static hil_status set_layer(const hil_config_reader *r, int64_t n, const char *type)
{
    static const char *const words[][4] = {{"M", "linear_attention", "mamba", "mamba2"},
                                           {"*", "full_attention", "attention", "attention"},
                                           {"-", "mlp", "mlp", "mlp"},
                                           {"E", "moe", "moe", "moe"}};
    enum { SPACE, ATTENTION, MLP, EXPERTS };
    hil_config *c = r->config;
    int kind = -1;
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 4; ++k)
            if (strcmp(type, words[i][k]) == 0) kind = i;
    if (kind < 0)
        return hil_fail(HIL_ERR_INPUT,
                        "%s: a layer is \"%.40s\"; for %s only linear_attention, full_attention, "
                        "mlp and moe are supported",
                        r->what, type, c->arch->name);
    if (kind == SPACE) set(c->mamba.layers, n);
    if (kind == MLP || kind == EXPERTS) set(c->feeds, n);
    if (kind != EXPERTS) set(c->mixture.dense, n);
    return HIL_OK;
}

/* How many layers there are says the list of them alone. */
static hil_status read_layers(const hil_config_reader *r)
{
    static const char *const keys[] = {"layers_block_type", "layer_types"};
    hil_config *c = r->config;
    const char *pattern = NULL;
    memset(c->mixture.dense, 0, sizeof c->mixture.dense);
    for (int i = 0; i < 2; ++i) {
        const json_t *list = json_object_get(r->object, keys[i]);
        if (!list || json_is_null(list)) continue;
        c->layers = (int64_t)json_array_size(list);
        if (c->layers < 1 || c->layers > HIL_LAYERS_MAX)
            return hil_config_refuse(r, keys[i], "must be a list with an entry per layer");
        for (int64_t n = 0; n < c->layers; ++n) {
            const char *type = json_string_value(json_array_get(list, (size_t)n));
            HIL_TRY(set_layer(r, n, type ? type : ""));
        }
        return HIL_OK;
    }
    HIL_TRY(hil_json_string(r->object, "hybrid_override_pattern", r->what, &pattern));
    if (!pattern) pattern = "ME*-";
    c->layers = (int64_t)strlen(pattern);
    if (c->layers < 1 || c->layers > HIL_LAYERS_MAX)
        return hil_config_refuse(r, "hybrid_override_pattern", "must have a letter per layer");
    for (int64_t n = 0; n < c->layers; ++n) HIL_TRY(set_layer(r, n, (char[]){pattern[n], 0}));
    return HIL_OK;
}

/* transformers takes the least step from time_step_min, and no other limit. */
static hil_status read_space(const hil_config_reader *r)
{
    static const hil_mamba_keys keys = {.heads = "mamba_num_heads",
                                        .head_dim = "mamba_head_dim",
                                        .groups = "n_groups",
                                        .states = "ssm_state_size",
                                        .kernel = "conv_kernel",
                                        .kernel_bias = "use_conv_bias",
                                        .bias = "use_bias"};
    static const char *const older[] = {"mamba_n_groups", "mamba_d_conv", "mamba_dt_min",
                                        "mamba_conv_bias"};
    hil_config *c = r->config;
    for (size_t i = 0; i < sizeof older / sizeof *older; ++i)
        if (json_object_get(r->object, older[i]))
            return hil_config_refuse(r, older[i], "is a key of older files: rename it");
    HIL_TRY(hil_config_mamba_sizes(r, &keys));
    c->mamba.least = 0.001, c->mamba.most = 0;
    HIL_TRY(hil_config_real(r, "time_step_min", 0, 1e9, &c->mamba.least));
    c->activation = HIL_SILU;
    HIL_TRY(hil_config_activation(r, "mamba_hidden_act", 1u << HIL_SILU));
    c->activation = HIL_RELU_SQUARED;
    return hil_config_activation(r, "mlp_hidden_act", 1u << HIL_RELU_SQUARED);
}

static bool has_experts(const hil_config *c)
{
    for (int64_t n = 0; n < c->layers; ++n)
        if (!(c->mixture.dense[n / 64] >> (n % 64) & 1)) return true;
    return false;
}

/* Layers with experts have one more, for all tokens, however many n_shared_experts says. */
static hil_status read_experts(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_mixture_config *m = &c->mixture;
    if (!has_experts(c)) {
        *m = (hil_mixture_config){.experts = 0};
        return HIL_OK;
    }
    HIL_TRY(hil_config_grouped_mixture(r, 1, 0));
    HIL_TRY(read_layers(r));
    HIL_TRY(hil_config_size(r, "moe_shared_expert_intermediate_size", NULL, HIL_CONFIG_WIDTH_MAX,
                            &m->shared));
    HIL_TRY(hil_json_int(r->object, "moe_latent_size", r->what, &m->latent));
    if (m->latent < 0 || m->latent > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "moe_latent_size", "is no size");
    if (!c->mlp_bias) return HIL_OK;
    return hil_config_refuse(r, "mlp_bias", "is true, which is not supported with experts");
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(read_layers(r));
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(read_layers(r));
    HIL_TRY(hil_config_numbers(r, "layer_norm_epsilon"));
    c->tied = false; /* whatever the config says, as in transformers */
    HIL_TRY(hil_config_bool(r, "mlp_bias", &c->mlp_bias));
    for (int64_t n = 0; n < c->layers; ++n) set(c->still, n);
    HIL_TRY(read_space(r));
    return read_experts(r);
}

const hil_arch_names hil_arch_backbone_names = {
    .embedding = "backbone.embeddings",
    .blocks = "backbone.layers.",
    .norm = "backbone.norm_f",
    .head = "lm_head",
    .attention_norm = "norm",
    .q = "mixer.q_proj",
    .k = "mixer.k_proj",
    .v = "mixer.v_proj",
    .o = "mixer.o_proj",
    .mlp_norm = "norm",
    .up = "mixer.up_proj",
    .down = "mixer.down_proj",
};

/* The names of transformers 5 in memory. */
static const hil_arch_stack stacks[] = {
    {.tensor = "mixer.experts.up_proj", .param = "mixer.experts.*.up_proj.weight", .parts = 1},
    {.tensor = "mixer.experts.down_proj", .param = "mixer.experts.*.down_proj.weight", .parts = 1},
    {.tensor = NULL},
};

const hil_arch hil_arch_nemotron_h = {
    .name = "nemotron_h",
    .class_name = "NemotronHForCausalLM",
    .defaults =
        &(const hil_config){.activation = HIL_RELU_SQUARED,
                            .norm_eps = 1e-5,
                            .lone = true,
                            .heads = 32,
                            .kv_heads = 8,
                            .head_dim = 128,
                            .intermediate = 21504,
                            .max_positions = 4096,
                            .mixture = {HIL_ARCH_SIGMOIDS, .experts = 8, .chosen = 2, .width = 7688,
                                        .shared = 7688, .normalized = true, .scale = 1},
                            .mamba = {.heads = 128,
                                      .head_dim = 64,
                                      .groups = 8,
                                      .states = 128,
                                      .kernel = 4,
                                      .kernel_bias = true},
                            .bos = 1,
                            .eos = 2,
                            .pad = 0},
    .names = &hil_arch_backbone_names,
    .mixture = &(const hil_mixture_names){.router = "mixer.gate",
                                          .up = "mixer.experts.*.up_proj",
                                          .down = "mixer.experts.*.down_proj",
                                          .correction = "mixer.gate.e_score_correction_bias",
                                          .shared_up = "mixer.shared_experts.up_proj",
                                          .shared_down = "mixer.shared_experts.down_proj",
                                          .latent_down = "mixer.fc1_latent_proj",
                                          .latent_up = "mixer.fc2_latent_proj"},
    .mamba = &(const hil_mamba_names){HIL_ARCH_MAMBA("mixer"), .drawn = true, .whole = true},
    .stacks = stacks,
    .root = "model.",
    .read = read,
    .build = hil_build_decoder,
};
