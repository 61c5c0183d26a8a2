/* cuda.cu - the table of operations on a GPU, and sums of partial results. */
#include "ops/cuda_kernel.h"

#include <string.h>

static const hil_op_kernel *const kernels[] = {
    &hil_cuda_add,
    &hil_cuda_dropout,
    &hil_cuda_embedding,
    &hil_cuda_gelu,
    &hil_cuda_head,
    &hil_cuda_linear,
    &hil_cuda_rope,
    &hil_cuda_layernorm,
    &hil_cuda_rmsnorm,
    &hil_cuda_swiglu,
    &hil_cuda_attention_op,
    &hil_cuda_attention_cached,
    &hil_cuda_scale,
    &hil_cuda_preference,
    &hil_cuda_weight_norm,
    &hil_cuda_magnitude,
    &hil_cuda_geglu,
    &hil_cuda_multiply,
    &hil_cuda_softcap,
    &hil_cuda_relu,
    &hil_cuda_relu_squared,
    &hil_cuda_xielu,
    &hil_cuda_split,
    &hil_cuda_low_rank,
    &hil_cuda_route,
    &hil_cuda_dispatch,
    &hil_cuda_grouped_linear,
    &hil_cuda_combine,
    &hil_cuda_balance,
    &hil_cuda_router_z,
    &hil_cuda_sigmoid_gate,
    &hil_cuda_softplus_gate,
    &hil_cuda_swiglu_clamped,
    &hil_cuda_expert_bias,
    &hil_cuda_expert_scale,
    &hil_cuda_expert_identity,
    &hil_cuda_gated,
    &hil_cuda_join,
    &hil_cuda_orthogonal,
    &hil_cuda_head_norm,
    &hil_cuda_head_rmsnorm,
    &hil_cuda_causal_conv,
    &hil_cuda_causal_conv_cached,
    &hil_cuda_causal_conv_plain,
    &hil_cuda_causal_conv_plain_cached,
    &hil_cuda_delta_rule,
    &hil_cuda_delta_rule_cached,
    &hil_cuda_channel_delta,
    &hil_cuda_channel_delta_cached,
    &hil_cuda_state_space,
    &hil_cuda_state_space_cached,
};

/* Finds the operation by name, because this module has its own copies of hil_op_*. Also makes the
   call's device CUDA's current one for this thread. */
static hil_status begin(const hil_op_call *call, const hil_op_kernel **out)
{
    int index = hil_cuda_of(call->device)->index;
    HIL_TRY(hil_cuda_check(call->device, cudaSetDevice(index), "start"));
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i)
        if (strcmp(kernels[i]->op->name, call->op->name) == 0) {
            *out = kernels[i];
            return HIL_OK;
        }
    return hil_fail(
        HIL_ERR_USAGE,
        "the operation %s does not run on a GPU yet: compute this model with --device cpu",
        call->op->name);
}

hil_status hil_op_cuda_infer(hil_op_call *call)
{
    const hil_op_kernel *kernel = NULL;
    HIL_TRY(begin(call, &kernel));
    HIL_TRY(call->op->infer(call));
    call->forward_scratch = call->backward_scratch = 0;
    return kernel->infer ? kernel->infer(call) : HIL_OK;
}

hil_status hil_op_cuda_forward(hil_op_call *call)
{
    const hil_op_kernel *kernel = NULL;
    HIL_TRY(begin(call, &kernel));
    if (!kernel->rehearses && hil_pool_is_dry(call->pool)) return call->op->forward(call);
    return kernel->forward(call);
}

hil_status hil_op_cuda_backward(hil_op_call *call)
{
    const hil_op_kernel *kernel = NULL;
    HIL_TRY(begin(call, &kernel));
    if (!kernel->backward) return HIL_OK;
    return hil_pool_is_dry(call->pool) ? call->op->backward(call) : kernel->backward(call);
}

#define GATHER_COLS 32
#define GATHER_PARTS 32

/* Each of a column's GATHER_PARTS threads adds a run of blocks in order; then the partial sums are
   added. */
static __global__ void gather(const hil_gather g)
{
    __shared__ float part[GATHER_PARTS][GATHER_COLS];
    int64_t col = (int64_t)blockIdx.x * GATHER_COLS + threadIdx.x;
    int64_t each = (g.blocks + GATHER_PARTS - 1) / GATHER_PARTS;
    int64_t first = threadIdx.y * each, last = first + each < g.blocks ? first + each : g.blocks;
    float total = 0;
    if (col < g.cols) {
#pragma unroll 8
        for (int64_t b = first; b < last; ++b) total += g.partial[b * g.cols + col];
    }
    part[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y || col >= g.cols) return;
    for (int i = 1; i < GATHER_PARTS; ++i) total += part[i][threadIdx.x];
    g.sum[col] = g.add ? g.sum[col] + total : total;
}

hil_status hil_op_cuda_gather(hil_device *device, const hil_gather &g)
{
    if (g.cols == 0) return HIL_OK;
    gather<<<hil_blocks(g.cols, GATHER_COLS), dim3(GATHER_COLS, GATHER_PARTS), 0,
             hil_cuda_of(device)->stream>>>(g);
    return hil_cuda_launched(device, "sum blocks");
}

hil_status hil_op_cuda_matrix(const hil_op_call *call, int param, void *out)
{
    const hil_op_param *p = &call->param[param];
    size_t row = (size_t)p->cols * hil_dtype_size(p->dtype);
    for (int64_t tile = 0; tile < hil_op_tiles(p); ++tile) {
        hil_op_rows r = hil_op_tile(p, tile);
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, param, tile, &data));
        cudaError_t bad = cudaMemcpyAsync((char *)out + (size_t)r.first * row, data,
                                          (size_t)r.count * row, cudaMemcpyDeviceToDevice,
                                          hil_cuda_stream(call->device, HIL_STREAM_COMPUTE));
        call->source->weight_end(call->owner, param, tile);
        HIL_TRY(hil_cuda_check(call->device, bad, "copy a matrix"));
    }
    return HIL_OK;
}

hil_status hil_op_cuda_give_matrix(const hil_op_call *call, int param, float *from)
{
    const hil_op_param *p = &call->param[param];
    for (int64_t tile = 0; tile < hil_op_tiles(p) && p->trainable; ++tile) {
        hil_op_rows r = hil_op_tile(p, tile);
        hil_tensor sum = {HIL_F32, {2, {r.count, p->cols}}, NULL}, part = sum;
        part.data = from + r.first * p->cols;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, param, tile, (float **)&sum.data, &add));
        hil_status status = hil_op_cuda_convert(call->device, &sum, &part, add);
        call->source->gradient_end(call->owner, param, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

const hil_device_ops hil_cuda_ops = {.infer = hil_op_cuda_infer,
                                     .forward = hil_op_cuda_forward,
                                     .backward = hil_op_cuda_backward,
                                     .convert = hil_op_cuda_convert,
                                     .sum = hil_op_cuda_sum};
