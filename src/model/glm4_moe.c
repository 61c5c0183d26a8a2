/* glm4_moe.c - GLM-4.5 and later: grouped attention of which half a head turns, and the experts of
   DeepSeek-V3. dots.llm1 has them with the attention of Qwen3, Solar Open with that of Llama. */
#include "model/build.h"

static hil_status read_glm4(const hil_config_reader *r)
{
    hil_config *c = r->config;
    bool normalized = false;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_bool(r, "attention_bias", &c->attention_bias));
    HIL_TRY(hil_config_bool(r, "use_qk_norm", &normalized));
    if (normalized) c->qk_norm = HIL_QK_NORM_HEAD;
    return hil_config_grouped_mixture(r, 1, 1);
}

static hil_status read_dots1(const hil_config_reader *r)
{
    int64_t last = 62;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_sliding_window(r, true));
    HIL_TRY(hil_json_int(r->object, "max_window_layers", r->what, &last));
    hil_config_slide_from(r->config, last);
    HIL_TRY(hil_config_layer_types(r));
    return hil_config_grouped_mixture(r, 0, 0);
}

/* transformers ignores keys that files of other code have: they are refused where they matter. */
static hil_status read_solar(const hil_config_reader *r)
{
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_bool(r, "attention_bias", &r->config->attention_bias));
    HIL_TRY(hil_config_refuse_flag(r, "use_qk_norm"));
    HIL_TRY(hil_config_refuse_number(r, "first_k_dense_replace"));
    return hil_config_grouped_mixture(r, 1, 0);
}

const hil_arch hil_arch_glm4_moe = {
    .name = "glm4_moe",
    .class_name = "Glm4MoeForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .max_positions = 131072,
                                    .rope = {.partial = 0.5},
                                    .mixture = {HIL_ARCH_SIGMOIDS, .experts = 128, .chosen = 8,
                                                .width = 1408, .normalized = true},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read_glm4,
    HIL_ARCH_GROUPED,
};

const hil_arch hil_arch_dots1 = {
    .name = "dots1",
    .class_name = "Dots1ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .frozen_pad = true,
                                    .kv_heads = 32,
                                    .max_positions = 2048,
                                    .window = 4096,
                                    .mixture = {HIL_ARCH_SIGMOIDS, .width = 1408},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read_dots1,
    HIL_ARCH_GROUPED,
};

const hil_arch hil_arch_solar_open = {
    .name = "solar_open",
    .class_name = "SolarOpenForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .intermediate = 1280, /* no layer has it */
                                    .max_positions = 131072,
                                    .rope = {.theta = 1e6, .partial = 1},
                                    .mixture = {HIL_ARCH_SIGMOIDS, .experts = 128, .chosen = 8,
                                                .width = 1280, .normalized = true},
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read_solar,
    HIL_ARCH_GROUPED,
};
