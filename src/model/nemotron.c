/* nemotron.c - Nemotron: LayerNorm with 1 + weight, heads of which half turns, and an MLP without
   gates whose activation is ReLU squared. Arcee: Llama with that MLP; Jais 2 with LayerNorm, too.
   nanochat has it and norms without weights. */
#include "model/build.h"

static hil_status read_common(const hil_config_reader *r, const char *eps)
{
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, eps));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_bool(r, "mlp_bias", &r->config->mlp_bias));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_RELU_SQUARED));
    return hil_config_rope(r);
}

static hil_status read_nemotron(const hil_config_reader *r)
{
    return read_common(r, "norm_eps");
}

static hil_status read_arcee(const hil_config_reader *r)
{
    return read_common(r, "rms_norm_eps");
}

static hil_status read_jais2(const hil_config_reader *r)
{
    return read_common(r, "layer_norm_eps");
}

static hil_status read_nanochat(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_attention_bias(r));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_RELU_SQUARED));
    HIL_TRY(hil_config_rope(r));
    if (json_is_null(json_object_get(r->object, "final_logit_softcapping"))) {
        c->logit_cap = 0;
        return HIL_OK;
    }
    return hil_config_real(r, "final_logit_softcapping", 1e-6, 1e9, &c->logit_cap);
}

static const hil_arch_names bare_names = {
    .embedding = "model.embed_tokens",
    .blocks = "model.layers.",
    .head = "lm_head",
    HIL_ARCH_PROJECTIONS,
    .up = "mlp.fc1",
    .down = "mlp.fc2",
};

static const hil_arch_names names = {
    HIL_ARCH_ENDS,
    HIL_ARCH_ATTENTION,
    .attention_norm = "input_layernorm",
    .mlp_norm = "post_attention_layernorm",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

const hil_arch hil_arch_nemotron = {
    .name = "nemotron",
    .class_name = "NemotronForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_RELU_SQUARED,
                                    .norm = HIL_NORM_LAYER_PLUS,
                                    .norm_bias = true,
                                    .norm_eps = 1e-5,
                                    .init_std = 0.0134,
                                    .frozen_pad = true,
                                    .max_positions = 4096,
                                    .rope = {.partial = 0.5},
                                    .bos = 2,
                                    .eos = 3,
                                    .pad = -1},
    .names = &names,
    .read = read_nemotron,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_arcee = {
    .name = "arcee",
    .class_name = "ArceeForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_RELU_SQUARED,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .max_positions = 4096,
                                    .bos = 128000,
                                    .eos = 128001,
                                    .pad = -1},
    .names = &names,
    .read = read_arcee,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_jais2 = {
    .name = "jais2",
    .class_name = "Jais2ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_RELU_SQUARED,
                                    .norm = HIL_NORM_LAYER,
                                    .norm_bias = true,
                                    .norm_eps = 1e-5,
                                    .attention_bias = true,
                                    .output_bias = true,
                                    .mlp_bias = true,
                                    .frozen_pad = true,
                                    .max_positions = 8192,
                                    .bos = 0,
                                    .eos = 150024,
                                    .pad = -1},
    .names = &names,
    .read = read_jais2,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_nanochat = {
    .name = "nanochat",
    .class_name = "NanoChatForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_RELU_SQUARED,
                                    .norm = HIL_NORM_RMS_BARE,
                                    .qk_norm = HIL_QK_NORM_TURNED,
                                    .embedding_norm = true,
                                    .reversed = true,
                                    .frozen_pad = true,
                                    .logit_cap = 15,
                                    .max_positions = 2048,
                                    .bos = 0,
                                    .eos = 1,
                                    .pad = 1},
    .names = &bare_names,
    .read = read_nanochat,
    .build = hil_build_decoder,
};
