/* cohere_moe.c - Cohere 2 with experts: the first layers may have an MLP, whose attention then has
   a pattern of its own; experts are chosen by their logits. */
#include "model/build.h"

#include <string.h>

#define SHARED_MAX 1024

static void set_slides(hil_config *c, int64_t first, int64_t end, int64_t period)
{
    for (int64_t n = first; n < end; ++n)
        if ((n - first + 1) % period) c->slides[n / 64] |= (uint64_t)1 << (n % 64);
}

/* Only layers with a window turn, and those with an MLP if all of them have full attention. */
static hil_status read_layers(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t dense = 0, period = 4, dense_period = 1;
    HIL_TRY(hil_config_sliding_window(r, true));
    if (!c->window) return hil_config_refuse(r, "sliding_window", "is null: it must be a number");
    HIL_TRY(hil_config_size(r, "sliding_window_pattern", NULL, HIL_LAYERS_MAX, &period));
    HIL_TRY(hil_config_size(r, "prefix_dense_sliding_window_pattern", NULL, HIL_LAYERS_MAX,
                            &dense_period));
    HIL_TRY(hil_json_int(r->object, "first_k_dense_replace", r->what, &dense));
    if (dense < 0 || dense > c->layers)
        return hil_config_refuse(r, "first_k_dense_replace", "is no number of layers");
    set_slides(c, 0, dense, dense_period);
    set_slides(c, dense, c->layers, period);
    HIL_TRY(hil_config_layer_types(r));
    for (int64_t n = 0; n < dense; ++n) c->mixture.dense[n / 64] |= (uint64_t)1 << (n % 64);
    HIL_TRY(hil_config_mlp_types(r));
    for (int i = 0; i < HIL_LAYER_WORDS; ++i) {
        c->still[i] = ~c->slides[i];
        if (dense_period == 1) c->still[i] &= ~c->mixture.dense[i];
    }
    return HIL_OK;
}

/* The words of `key`: whether it has the second one. */
static hil_status read_choice(const hil_config_reader *r, const char *key, const char *const of[2],
                              bool *second)
{
    const char *word = of[*second];
    HIL_TRY(hil_json_string(r->object, key, r->what, &word));
    *second = strcmp(word, of[1]) == 0;
    if (*second || strcmp(word, of[0]) == 0) return HIL_OK;
    return hil_fail(HIL_ERR_INPUT, "%s: \"%s\" is \"%.40s\"; it must be %s or %s", r->what, key,
                    word, of[0], of[1]);
}

/* Experts and MLPs have no size of their own in most files. The softmax is that of the chosen
   experts. */
static hil_status read_experts(const hil_config_reader *r)
{
    hil_config *c = r->config;
    hil_mixture_config *m = &c->mixture;
    int64_t shared = 0;
    bool sums = false, normalized = true;
    HIL_TRY(hil_config_size(r, "num_experts", NULL, INT32_MAX, &m->experts));
    HIL_TRY(hil_config_size(r, "num_experts_per_tok", NULL, m->experts, &m->chosen));
    HIL_TRY(hil_config_check_mixture(r));
    HIL_TRY(hil_json_int(r->object, "num_shared_experts", r->what, &shared));
    if (shared > SHARED_MAX) return hil_config_refuse(r, "num_shared_experts", "is too large");
    HIL_TRY(read_choice(r, "expert_selection_fn", (const char *const[]){"softmax", "sigmoid"},
                        &m->sigmoid));
    HIL_TRY(read_choice(r, "shared_expert_combination_strategy",
                        (const char *const[]){"average", "sum"}, &sums));
    HIL_TRY(hil_config_bool(r, "norm_topk_prob", &normalized));
    m->normalized = normalized || !m->sigmoid;
    m->width = c->intermediate;
    m->shared = shared > 0 ? shared * m->width : 0;
    m->part = shared > 0 && !sums ? 0.5 : 0;
    return hil_config_size(r, "prefix_dense_intermediate_size", NULL, 4 * HIL_CONFIG_WIDTH_MAX,
                           &c->intermediate);
}

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    if (c->intermediate > HIL_CONFIG_WIDTH_MAX)
        return hil_config_refuse(r, "intermediate_size", "is too large for experts");
    HIL_TRY(hil_config_numbers(r, "layer_norm_eps"));
    if (json_is_number(json_object_get(r->object, "rms_norm_eps"))) {
        c->norm = HIL_NORM_RMS;
        HIL_TRY(hil_config_real(r, "rms_norm_eps", 1e-30, 1, &c->norm_eps));
    }
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_real(r, "logit_scale", 1e-9, 1e9, &c->logit_scale));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    if (json_object_size(json_object_get(r->object, "rope_scaling")))
        return hil_config_refuse(r, "rope_scaling", "is not known here: use \"rope_parameters\"");
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(read_layers(r));
    return read_experts(r);
}

const hil_arch hil_arch_cohere2_moe = {
    .name = "cohere2_moe",
    .class_name = "Cohere2MoeForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_eps = 1e-5,
                                    .parallel = true,
                                    .shared_norm = true,
                                    .interleaved = true,
                                    .logit_scale = 0.0625,
                                    .tied = true,
                                    .frozen_pad = true,
                                    .heads = 64,
                                    .head_dim = 128,
                                    .intermediate = 22528,
                                    .max_positions = 8192,
                                    .window = 4096,
                                    .mixture = {.experts = 8, .chosen = 2, .by_logits = true},
                                    .bos = 5,
                                    .eos = 255001},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){HIL_ARCH_SHARED_EXPERTS},
    .stacks = hil_arch_usual_stacks,
    .fused = true,
    .read = read,
    .build = hil_build_decoder,
};
