/* expert_bias.cu - adds to each row the bias of the expert that it belongs to. */
#include "ops/cuda_kernel.h"

#define THREADS 128
#define SPAN (THREADS * HIL_WIDE) /* columns of a block of threads */
#define ROW_BLOCKS 64

/* A block of threads has columns of one expert. */
typedef struct job {
    const int32_t *begin;
    int64_t cols;
    hil_view x, bias, out;
} job;

static __global__ void __launch_bounds__(THREADS) add_bias(const job j)
{
    int64_t col = (int64_t)blockIdx.x * SPAN + threadIdx.x * HIL_WIDE, expert = blockIdx.z;
    int n = hil_wide_count(j.cols - col);
    if (n == 0) return;
    float bias[HIL_WIDE], x[HIL_WIDE];
    hil_wide_read(hil_wide_load(j.bias, expert * j.cols + col, n), j.bias.dtype, bias);
    for (int64_t r = j.begin[expert] + blockIdx.y; r < j.begin[expert + 1]; r += gridDim.y) {
        hil_wide_read(hil_wide_load(j.x, r * j.cols + col, n), j.x.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[i] += bias[i];
        hil_wide_store(j.out, r * j.cols + col, n, x);
    }
}

/* The rows of an expert are added in order; 0 for one that no row chose. */
static __global__ void __launch_bounds__(THREADS) sum_bias(const job j, bool add)
{
    int64_t col = (int64_t)blockIdx.x * SPAN + threadIdx.x * HIL_WIDE, expert = blockIdx.z;
    int n = hil_wide_count(j.cols - col);
    if (n == 0) return;
    float sum[HIL_WIDE] = {}, x[HIL_WIDE];
#pragma unroll 4
    for (int64_t r = j.begin[expert]; r < j.begin[expert + 1]; ++r) {
        hil_wide_read(hil_wide_load(j.x, r * j.cols + col, n), j.x.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum[i] += x[i];
    }
    hil_wide_write(j.out, expert * j.cols + col, n, sum, add);
}

static job job_of(const hil_op_call *call)
{
    return {(const int32_t *)call->in[1].data, call->in[0].shape.dim[1]};
}

static dim3 grid_of(const hil_op_call *call, int64_t rows)
{
    return dim3(hil_blocks(call->in[0].shape.dim[1], SPAN),
                (unsigned)(rows < ROW_BLOCKS ? rows : ROW_BLOCKS),
                (unsigned)(call->in[1].shape.dim[0] - 1));
}

static hil_status forward(hil_op_call *call)
{
    job j = job_of(call);
    const void *bias;
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &bias));
    j.x = hil_view_of(&call->in[0]), j.out = hil_view_of(&call->out[0]);
    j.bias = {(void *)(uintptr_t)bias, call->param[0].dtype};
    if (call->in[0].shape.dim[0])
        add_bias<<<grid_of(call, call->in[0].shape.dim[0]), THREADS, 0,
                   hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j);
    hil_status status = hil_cuda_launched(call->device, "expert_bias");
    call->source->weight_end(call->owner, 0, 0);
    return status;
}

static hil_status backward(hil_op_call *call)
{
    if (!call->param[0].trainable) return HIL_OK;
    job j = job_of(call);
    float *sum;
    bool add;
    HIL_TRY(call->source->gradient_begin(call->owner, 0, 0, &sum, &add));
    j.x = hil_view_of(&call->dout[0]);
    j.out = {sum, HIL_F32};
    sum_bias<<<grid_of(call, 1), THREADS, 0, hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        j, add);
    hil_status status = hil_cuda_launched(call->device, "expert_bias backward");
    call->source->gradient_end(call->owner, 0, 0);
    return status;
}

const hil_op_kernel hil_cuda_expert_bias = {
    .op = &hil_op_expert_bias, .forward = forward, .backward = backward};
