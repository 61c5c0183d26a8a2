/* minimax_m2.c - MiniMax-M2: norms of whole queries and keys, heads of which a part turns, and a
   mixture of experts that are chosen by sigmoids and a bias. */
#include "model/build.h"

static hil_status read(const hil_config_reader *r)
{
    hil_config *c = r->config;
    int64_t turning = 0;
    HIL_TRY(hil_config_sizes(r, false));
    HIL_TRY(hil_config_numbers(r, "rms_norm_eps"));
    HIL_TRY(hil_config_activation(r, "hidden_act", 1u << HIL_SILU));
    HIL_TRY(hil_json_int(r->object, "rotary_dim", r->what, &turning));
    if (turning < 0 || turning > c->head_dim)
        return hil_config_refuse(r, "rotary_dim", "is larger than \"head_dim\"");
    if (turning) c->rope.partial = (double)turning / (double)c->head_dim;
    HIL_TRY(hil_config_rope(r));
    HIL_TRY(hil_config_refuse_number(r, "router_jitter_noise"));
    HIL_TRY(hil_config_refuse_number(r, "shared_intermediate_size"));
    HIL_TRY(hil_config_refuse_flag(r, "output_router_logits"));
    c->mixture.width = c->intermediate;
    return hil_config_mixture(r, "num_local_experts");
}

const hil_arch hil_arch_minimax_m2 = {
    .name = "minimax_m2",
    .class_name = "MiniMaxM2ForCausalLM",
    .defaults = &(const hil_config){.activation = HIL_SILU,
                                    .qk_norm = HIL_QK_NORM_WHOLE,
                                    .frozen_pad = true,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .max_positions = 196608,
                                    .rope = {.theta = 5e6, .partial = 1},
                                    .mixture = {.experts = 256,
                                                .chosen = 8,
                                                .normalized = true,
                                                .sigmoid = true,
                                                .corrected = true},
                                    .bos = 200034,
                                    .eos = 200020,
                                    .pad = -1},
    .names = &hil_arch_usual_names,
    .mixture = &(const hil_mixture_names){HIL_ARCH_BLOCK_SPARSE,
                                          .correction = "block_sparse_moe.e_score_correction_bias"},
    .stacks = hil_arch_block_sparse_stacks,
    .read = read,
    .build = hil_build_decoder,
};
