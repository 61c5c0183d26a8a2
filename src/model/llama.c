/* llama.c - Llama: RMSNorm, rotary grouped attention, SwiGLU. */
#include "model/build.h"

hil_status hil_config_read_usual(const hil_config_reader *r)
{
    HIL_TRY(hil_config_sizes(r, r->config->arch == &hil_arch_llama));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    return hil_config_rope(r);
}

/* The keys of Llama, which others have as well. */
hil_status hil_config_read_llama(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_attention_bias(r));
    return hil_config_bool(r, "mlp_bias", &c->mlp_bias);
}

/* The biases under other keys. One key for the output projection and the MLP, another for q, k and
   v: transformers takes them only where both are the same. */
static hil_status read_internlm3(const hil_config_reader *r)
{
    hil_config *c = r->config;
    HIL_TRY(hil_config_read_llama(r));
    HIL_TRY(hil_config_bool(r, "qkv_bias", &c->attention_bias));
    HIL_TRY(hil_config_bool(r, "bias", &c->mlp_bias));
    c->output_bias = c->mlp_bias;
    if (c->attention_bias == c->mlp_bias) return HIL_OK;
    return hil_config_refuse(r, "qkv_bias", "and \"bias\" must be the same");
}

/* As in transformers, which refuses what no released model has. */
static hil_status read_iquestcoder(const hil_config_reader *r)
{
    const json_t *clip = json_object_get(r->object, "clip_qkv");
    HIL_TRY(hil_config_read_llama(r));
    HIL_TRY(hil_config_refuse_flag(r, "use_sliding_window"));
    if (!clip || json_is_null(clip)) return HIL_OK;
    return hil_config_refuse(r, "clip_qkv", "is set, which is not supported");
}

const hil_arch hil_arch_llama = {
    .name = "llama",
    .class_name = "LlamaForCausalLM",
    .gguf = "llama",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 2048,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = hil_config_read_llama,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_internlm3 = {
    .name = "internlm3",
    .class_name = "LlamaForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .frozen_pad = true,
                                    .kv_heads = 2,
                                    .head_dim = 128,
                                    .max_positions = 32768,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = 2},
    .names = &hil_arch_usual_names,
    .read = read_internlm3,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_iquestcoder = {
    .name = "iquestcoder",
    .class_name = "LlamaForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .norm_eps = 1e-5,
                                    .max_positions = 131072,
                                    .head_dim = 128,
                                    .kv_heads = 8,
                                    .frozen_pad = true,
                                    .bos = 1,
                                    .eos = 2,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read_iquestcoder,
    .build = hil_build_decoder,
};
