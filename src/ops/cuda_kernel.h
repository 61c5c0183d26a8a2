/* cuda_kernel.h - code that the operations' kernels share, and the table of operations. */
#ifndef HIL_OPS_CUDA_KERNEL_H
#define HIL_OPS_CUDA_KERNEL_H

extern "C" {
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"
}
#include "device/cuda_device.h"
#include "ops/cuda.h"
#include "tensor/cuda_wide.h"

/* The functions of one operation on a GPU. */
typedef struct hil_op_kernel {
    const hil_op *op;
    hil_status (*infer)(hil_op_call *call); /* after op->infer: scratch, which is 0; NULL: none */
    hil_status (*forward)(hil_op_call *call);
    hil_status (*backward)(hil_op_call *call);
    bool rehearses; /* forward also runs with a dry pool: its order of tiles is not the CPU's */
} hil_op_kernel;

extern const hil_op_kernel hil_cuda_add, hil_cuda_attention_op, hil_cuda_attention_cached,
    hil_cuda_dropout, hil_cuda_embedding, hil_cuda_gelu, hil_cuda_head, hil_cuda_layernorm,
    hil_cuda_linear, hil_cuda_magnitude, hil_cuda_rmsnorm, hil_cuda_rope, hil_cuda_scale,
    hil_cuda_swiglu, hil_cuda_preference, hil_cuda_weight_norm, hil_cuda_geglu, hil_cuda_multiply,
    hil_cuda_softcap, hil_cuda_relu_squared, hil_cuda_split, hil_cuda_low_rank, hil_cuda_route,
    hil_cuda_dispatch, hil_cuda_grouped_linear, hil_cuda_combine, hil_cuda_balance,
    hil_cuda_sigmoid_gate, hil_cuda_swiglu_clamped, hil_cuda_expert_bias, hil_cuda_gated,
    hil_cuda_join, hil_cuda_orthogonal, hil_cuda_head_norm, hil_cuda_head_rmsnorm,
    hil_cuda_causal_conv, hil_cuda_causal_conv_cached, hil_cuda_causal_conv_plain,
    hil_cuda_causal_conv_plain_cached, hil_cuda_delta_rule, hil_cuda_delta_rule_cached,
    hil_cuda_state_space, hil_cuda_state_space_cached, hil_cuda_expert_scale, hil_cuda_xielu,
    hil_cuda_relu, hil_cuda_expert_identity, hil_cuda_channel_delta, hil_cuda_channel_delta_cached,
    hil_cuda_router_z, hil_cuda_softplus_gate;

/* Records an id that is not in a table of `rows`; the first one is reported. */
static __device__ inline void hil_fault_report(hil_cuda_fault *fault, int64_t id, int64_t rows)
{
    if (atomicCAS(&fault->set, 0u, 1u) != 0) return;
    fault->id = (int)id;
    fault->rows = rows;
}

/* Blocks for each of many rows of a grid, such as the heads of all sequences: (block, row). A
   grid's second dimension ends at 65,535, so the rows are in the first one. */
typedef struct hil_grid_block {
    int64_t block, blocks, row;
} hil_grid_block;

static __device__ inline hil_grid_block hil_grid_block_of(int64_t blocks)
{
    return {blockIdx.x % blocks, blocks, blockIdx.x / blocks};
}

/* Like hil_row_gather, in another fixed order. */
hil_status hil_op_cuda_gather(hil_device *device, const hil_gather &gather);

/* Like hil_op_matrix and hil_op_give_matrix, in the device's memory. */
hil_status hil_op_cuda_matrix(const hil_op_call *call, int param, void *out);
hil_status hil_op_cuda_give_matrix(const hil_op_call *call, int param, float *from);

/* The pointer of part `at` of the call's scratch. */
static inline void *hil_scratch_at(const hil_op_call *call, size_t at)
{
    return (char *)call->scratch + at;
}

#endif
