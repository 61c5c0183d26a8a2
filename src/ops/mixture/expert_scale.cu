/* expert_scale.cu - multiplies the weight of each choice by a factor of its expert. */
#include "ops/cuda_kernel.h"

#define THREADS 256

typedef struct job {
    const int32_t *place, *begin;
    int64_t count, experts; /* choices */
    hil_view weight, factor, dout, out;
} job;

static __device__ inline float read_one(hil_view x, int64_t at)
{
    float out[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, at, 1), x.dtype, out);
    return out[0];
}

/* The expert whose choices lie around `place`. */
static __device__ inline int64_t find_expert(const job &j, int32_t place)
{
    int64_t low = 0, high = j.experts;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (j.begin[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* out = x * factor: of the weights, or of their gradients. */
static __global__ void __launch_bounds__(THREADS) scale(const job j, const hil_view x, bool add)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= j.count) return;
    float y[HIL_WIDE] = {read_one(x, i) * read_one(j.factor, find_expert(j, j.place[i]))};
    hil_wide_write(j.out, i, 1, y, add);
}

/* A block of threads per expert, each with every THREADS-th choice; then a tree of sums. */
static __global__ void __launch_bounds__(THREADS) sum_factor(const job j, bool add)
{
    __shared__ float part[THREADS];
    int32_t first = j.begin[blockIdx.x], end = j.begin[blockIdx.x + 1];
    float sum = 0;
    for (int64_t i = threadIdx.x; i < j.count; i += THREADS)
        if (j.place[i] >= first && j.place[i] < end)
            sum += read_one(j.dout, i) * read_one(j.weight, i);
    part[threadIdx.x] = sum;
    for (int step = THREADS / 2; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    }
    float all[HIL_WIDE] = {part[0]};
    if (threadIdx.x == 0) hil_wide_write(j.out, blockIdx.x, 1, all, add);
}

static job job_of(const hil_op_call *call)
{
    return {(const int32_t *)call->in[1].data, (const int32_t *)call->in[2].data,
            hil_shape_count(&call->in[0].shape), call->in[2].shape.dim[0] - 1,
            hil_view_of(&call->in[0])};
}

/* Of x to `out`, with the factors. */
static hil_status run(hil_op_call *call, const hil_tensor *x, const hil_tensor *out, bool add)
{
    job j = job_of(call);
    const void *factor;
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &factor));
    j.factor = {(void *)(uintptr_t)factor, call->param[0].dtype};
    j.out = hil_view_of(out);
    if (j.count)
        scale<<<hil_blocks(j.count, THREADS), THREADS, 0,
                hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j, hil_view_of(x), add);
    hil_status status = hil_cuda_launched(call->device, "expert_scale");
    call->source->weight_end(call->owner, 0, 0);
    return status;
}

static hil_status forward(hil_op_call *call)
{
    return run(call, &call->in[0], &call->out[0], false);
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data) HIL_TRY(run(call, &call->dout[0], &call->din[0], call->din_add[0]));
    if (!call->param[0].trainable) return HIL_OK;
    bool add;
    float *sum;
    HIL_TRY(call->source->gradient_begin(call->owner, 0, 0, &sum, &add));
    job j = job_of(call);
    j.out = {sum, HIL_F32};
    j.dout = hil_view_of(&call->dout[0]);
    sum_factor<<<(unsigned)j.experts, THREADS, 0,
                 hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j, add);
    hil_status status = hil_cuda_launched(call->device, "expert_scale backward");
    call->source->gradient_end(call->owner, 0, 0);
    return status;
}

const hil_op_kernel hil_cuda_expert_scale = {
    .op = &hil_op_expert_scale, .forward = forward, .backward = backward};
