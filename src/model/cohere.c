/* cohere.c - Command-R: LayerNorm without bias, attention and MLP side by side after one norm,
   pairs of neighbours turn, scaled logits. Command-R+ normalises heads, each with weights of its
   own. Cohere 2 has windows, and layers without rotary embedding. */
#include "model/build.h"

static hil_status read_common(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "layer_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_real(r, "logit_scale", 1e-9, 1e9, &c->logit_scale));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    return hil_config_rope(r);
}

static hil_status read_cohere(const hil_config_reader *r)
{
    bool normalized = false;
    HIL_TRY(hil_config_bool(r, "use_qk_norm", &normalized));
    if (normalized) r->config->qk_norm = HIL_QK_NORM_OWN;
    return read_common(r);
}

/* Only layers with a window turn. */
static hil_status read_cohere2(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t period = 4;
    HIL_TRY(read_common(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    HIL_TRY(hil_config_size(r, "sliding_window_pattern", NULL, HIL_LAYERS_MAX, &period));
    hil_config_slide_between(c, period);
    HIL_TRY(hil_config_layer_types(r));
    for (int i = 0; i < HIL_LAYER_WORDS; ++i) c->still[i] = ~c->slides[i];
    return HIL_OK;
}

/* What both have. */
#define COHERE                                                                                     \
    .activation = HIL_SILU, .norm = HIL_NORM_LAYER, .norm_eps = 1e-5, .parallel = true,            \
    .shared_norm = true, .interleaved = true, .logit_scale = 0.0625, .tied = true,                 \
    .frozen_pad = true, .max_positions = 8192, .bos = 5, .eos = 255001

const hil_arch hil_arch_cohere = {
    .name = "cohere",
    .class_name = "CohereForCausalLM",
    .defaults = &(const hil_config){COHERE, .rope = {.theta = 500000}},
    .names = &hil_arch_usual_names,
    .read = read_cohere,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_cohere2 = {
    .name = "cohere2",
    .class_name = "Cohere2ForCausalLM",
    .defaults = &(const hil_config){COHERE, .window = 4096},
    .names = &hil_arch_usual_names,
    .read = read_cohere2,
    .build = hil_build_decoder,
};
