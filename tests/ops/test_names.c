/* Operations have unique names, by which a module finds those it has a kernel for. */
#include "check.h"
#include "ops/ops.h"

#include <string.h>

int main(void)
{
    const hil_op *const all[] = {&hil_op_embedding,
                                 &hil_op_linear,
                                 &hil_op_layernorm,
                                 &hil_op_rmsnorm,
                                 &hil_op_head_norm,
                                 &hil_op_head_rmsnorm,
                                 &hil_op_rope,
                                 &hil_op_attention,
                                 &hil_op_gelu,
                                 &hil_op_swiglu,
                                 &hil_op_attention_cached,
                                 &hil_op_add,
                                 &hil_op_dropout,
                                 &hil_op_head,
                                 &hil_op_scale,
                                 &hil_op_preference,
                                 &hil_op_weight_norm,
                                 &hil_op_magnitude,
                                 &hil_op_route,
                                 &hil_op_dispatch,
                                 &hil_op_grouped_linear,
                                 &hil_op_combine,
                                 &hil_op_balance,
                                 &hil_op_router_z,
                                 &hil_op_geglu,
                                 &hil_op_multiply,
                                 &hil_op_softcap,
                                 &hil_op_relu,
                                 &hil_op_relu_squared,
                                 &hil_op_xielu,
                                 &hil_op_split,
                                 &hil_op_low_rank,
                                 &hil_op_sigmoid_gate,
                                 &hil_op_softplus_gate,
                                 &hil_op_swiglu_clamped,
                                 &hil_op_expert_bias,
                                 &hil_op_expert_scale,
                                 &hil_op_expert_identity,
                                 &hil_op_custom,
                                 &hil_op_gated,
                                 &hil_op_join,
                                 &hil_op_orthogonal,
                                 &hil_op_causal_conv,
                                 &hil_op_causal_conv_cached,
                                 &hil_op_causal_conv_plain,
                                 &hil_op_causal_conv_plain_cached,
                                 &hil_op_delta_rule,
                                 &hil_op_delta_rule_cached,
                                 &hil_op_channel_delta,
                                 &hil_op_channel_delta_cached,
                                 &hil_op_state_space,
                                 &hil_op_state_space_cached};
    size_t count = sizeof all / sizeof *all;
    for (size_t i = 0; i < count; ++i)
        for (size_t k = 0; k < i; ++k) CHECK(strcmp(all[i]->name, all[k]->name) != 0);
    return 0;
}
