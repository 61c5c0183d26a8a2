/* router_z.cu - the loss that keeps the logits of a router small. */
#include "ops/cuda_kernel.h"
#include "ops/mixture/total_cuda.h"

#define THREADS 256
#define WARPS (THREADS / 32)
#define FULL 0xffffffffu

typedef struct job {
    hil_view logits, to;
    float *size; /* of each row: the logarithm of its sum of exponentials; 0: it has no target */
    const int32_t *target;
    int64_t rows, experts;
    double coefficient, layers, scale;
} job;

static job job_of(const hil_op_call *call)
{
    const hil_router_z_attr *attr = (const hil_router_z_attr *)call->attr;
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    return {hil_view_of(&call->in[0]),
            hil_view_of(&call->din[0]),
            (float *)call->saved[0].data,
            (const int32_t *)call->in[1].data,
            rows,
            hil_shape_cols(&call->in[0].shape),
            attr->coefficient,
            (double)attr->layers,
            (double)call->loss_scale};
}

/* n logits of a row from e on. */
static __device__ inline void read(const job &j, int64_t row, int64_t e, int n, float x[HIL_WIDE])
{
    hil_wide_read(hil_wide_load(j.logits, row * j.experts + e, n), j.logits.dtype, x);
}

/* A warp's work is a row; each lane has runs of HIL_WIDE experts. */
static __global__ void __launch_bounds__(THREADS) find_sizes(const job j)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int64_t first = threadIdx.x % 32 * HIL_WIDE;
    float most = -INFINITY, sum = 0, x[HIL_WIDE];
    if (row >= j.rows) return;
    if (j.target[row] < 0) {
        if (threadIdx.x % 32 == 0) j.size[row] = 0;
        return;
    }
    for (int64_t e = first; e < j.experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(j.experts - e);
        read(j, row, e, n, x);
        for (int i = 0; i < n; ++i) most = fmaxf(most, x[i]);
    }
    for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(FULL, most, step));
    for (int64_t e = first; e < j.experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(j.experts - e);
        read(j, row, e, n, x);
        for (int i = 0; i < n; ++i) sum += expf(x[i] - most);
    }
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(FULL, sum, step);
    if (threadIdx.x % 32 == 0) j.size[row] = most + logf(sum);
}

static __global__ void __launch_bounds__(HIL_TOTAL_THREADS) find_loss(const job j, float *out)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < j.rows; i += HIL_TOTAL_THREADS)
        sum += (double)j.size[i] * (double)j.size[i];
    sum = hil_total(sum);
    if (threadIdx.x) return;
    out[0] = (float)(j.coefficient * sum / j.layers);
    out[1] = (float)(sum / j.layers);
}

/* A warp's work is a row again. */
static __global__ void __launch_bounds__(THREADS) find_gradient(const job j, bool add)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= j.rows) return;
    float x[HIL_WIDE], size = j.size[row];
    float factor = (float)(2 * j.scale * j.coefficient / j.layers * (double)size);
    for (int64_t e = threadIdx.x % 32 * HIL_WIDE; e < j.experts; e += 32 * HIL_WIDE) {
        int n = hil_wide_count(j.experts - e);
        if (size != 0) read(j, row, e, n, x);
        for (int i = 0; i < HIL_WIDE; ++i)
            x[i] = size != 0 && i < n ? expf(x[i] - size) * factor : 0;
        hil_wide_write(j.to, row * j.experts + e, n, x, add);
    }
}

static hil_status forward(hil_op_call *call)
{
    job j = job_of(call);
    cudaStream_t stream = hil_cuda_stream(call->device, HIL_STREAM_COMPUTE);
    find_sizes<<<hil_blocks(j.rows, WARPS), THREADS, 0, stream>>>(j);
    find_loss<<<1, HIL_TOTAL_THREADS, 0, stream>>>(j, (float *)call->out[0].data);
    return hil_cuda_launched(call->device, "router_z");
}

static hil_status backward(hil_op_call *call)
{
    job j = job_of(call);
    if (!call->din[0].data) return HIL_OK;
    find_gradient<<<hil_blocks(j.rows, WARPS), THREADS, 0,
                    hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j, call->din_add[0]);
    return hil_cuda_launched(call->device, "router_z backward");
}

const hil_op_kernel hil_cuda_router_z = {
    .op = &hil_op_router_z, .forward = forward, .backward = backward};
