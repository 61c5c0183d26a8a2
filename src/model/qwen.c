/* qwen.c - Qwen2: Llama with biases on q, k and v, and windows from some layer on. Qwen3: q and k
   are normalised per head instead. */
#include "model/build.h"

/* What both have. */
static hil_status read_qwen(const hil_config_reader *r)
{
    bool use = false;
    int64_t first = 28;
    HIL_TRY(hil_config_read_usual(r));
    HIL_TRY(hil_config_bool(r, "use_sliding_window", &use));
    HIL_TRY(hil_json_int(r->object, "max_window_layers", r->what, &first));
    HIL_TRY(hil_config_sliding_window(r, use));
    hil_config_slide_from(r->config, first);
    return hil_config_layer_types(r);
}

static hil_status read_qwen3(const hil_config_reader *r)
{
    HIL_TRY(hil_config_attention_bias(r));
    return read_qwen(r);
}

const hil_arch hil_arch_qwen2 = {
    .name = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .gguf = "qwen2",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 32768,
                                    .kv_heads = 32,
                                    .window = 4096,
                                    .attention_bias = true,
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read_qwen,
    .build = hil_build_decoder,
};

const hil_arch hil_arch_qwen3 = {
    .name = "qwen3",
    .class_name = "Qwen3ForCausalLM",
    .gguf = "qwen3",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .frozen_pad = true,
                                    .max_positions = 32768,
                                    .kv_heads = 32,
                                    .head_dim = 128,
                                    .window = 4096,
                                    .qk_norm = HIL_QK_NORM_HEAD,
                                    .bos = -1,
                                    .eos = -1,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .read = read_qwen3,
    .build = hil_build_decoder,
};
