/* balance.cu - the auxiliary loss that makes routers use all experts alike. */
#include "ops/cuda_kernel.h"
#include "ops/mixture/total_cuda.h"

#define THREADS HIL_TOTAL_THREADS

typedef struct job {
    const float *use; /* choices, then sums of probabilities */
    const int32_t *target;
    int64_t experts, targets;
    double coefficient, rows, scale;
} job;

static __device__ inline double learned(const job &j)
{
    int64_t count = 0;
    for (int64_t i = threadIdx.x; i < j.targets; i += THREADS) count += j.target[i] >= 0;
    return hil_total((double)count);
}

static __global__ void __launch_bounds__(THREADS) find_loss(const job j, float *out)
{
    double sum = 0, tokens = learned(j);
    for (int64_t e = threadIdx.x; e < j.experts; e += THREADS)
        sum += (double)j.use[e] / j.rows * ((double)j.use[j.experts + e] / j.rows);
    double loss = hil_total(sum) * (double)j.experts * tokens;
    if (threadIdx.x) return;
    out[0] = (float)(j.coefficient * loss);
    out[1] = (float)loss;
}

static __global__ void __launch_bounds__(THREADS) find_gradient(const job j, float *out, bool add)
{
    double factor = j.scale * learned(j) * j.coefficient * (double)j.experts / (j.rows * j.rows);
    for (int64_t e = threadIdx.x; e < j.experts; e += THREADS) {
        float dp = (float)(factor * (double)j.use[e]);
        if (!add) out[e] = 0;
        out[j.experts + e] = add ? out[j.experts + e] + dp : dp;
    }
}

static job job_of(const hil_op_call *call)
{
    const hil_balance_attr *attr = (const hil_balance_attr *)call->attr;
    return {(const float *)call->in[0].data,
            (const int32_t *)call->in[1].data,
            call->in[0].shape.dim[1],
            hil_shape_count(&call->in[1].shape),
            attr->coefficient,
            (double)attr->rows,
            (double)call->loss_scale};
}

static hil_status forward(hil_op_call *call)
{
    find_loss<<<1, THREADS, 0, hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        job_of(call), (float *)call->out[0].data);
    return hil_cuda_launched(call->device, "balance");
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    find_gradient<<<1, THREADS, 0, hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        job_of(call), (float *)call->din[0].data, call->din_add[0]);
    return hil_cuda_launched(call->device, "balance backward");
}

const hil_op_kernel hil_cuda_balance = {
    .op = &hil_op_balance, .forward = forward, .backward = backward};
