/* qwen_moe.c - Qwen3-MoE: Qwen3 with a mixture of experts in place of the MLP. */
#include "model/build.h"

static hil_status read_qwen3_moe(const hil_config_reader *r)
{
    HIL_TRY(hil_arch_qwen3.read(r));
    return hil_config_mixture(r, "num_local_experts");
}

const hil_arch hil_arch_qwen3_moe = {
    .name = "qwen3_moe",
    .class_name = "Qwen3MoeForCausalLM",
    .defaults = &(
        const hil_config){.activation = HIL_SILU,
                          .frozen_pad = true,
                          .max_positions = 32768,
                          .kv_heads = 4,
                          .window = 4096,
                          .qk_norm = HIL_QK_NORM_HEAD,
                          .mixture = {.experts = 128, .chosen = 8, .width = 768, .balance = 0.001},
                          .bos = -1,
                          .eos = -1,
                          .pad = -1},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){"mlp.gate", "mlp.experts.*.gate_proj",
                                          "mlp.experts.*.up_proj", "mlp.experts.*.down_proj"},
    .read = read_qwen3_moe,
    .build = hil_build_decoder,
};
