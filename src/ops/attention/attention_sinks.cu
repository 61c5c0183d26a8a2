/* attention_sinks.cu - sinks of attention on a GPU. A sink is one more key of every query of its
   head, with a score of its own and no value.

   [Note: sinks] It only makes the sum of weights larger, so implementations that know no sinks
   compute attention without it; then the results are multiplied by the part of the weights that
   keys have, and the log-sums get the sink's weight added. Backward needs nothing else: it computes
   weights from the log-sums, and delta from the results. */
#include "ops/attention/attention_cuda.h"

#define WARPS 8
#define THREADS (32 * WARPS)

/* A warp has one query of one head. */
static __global__ void __launch_bounds__(THREADS) weigh(const hil_cuda_attention a)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; /* (B, T, H) */
    if (row >= a.batch * a.queries * a.heads) return;
    int64_t head = row % a.heads, t = row / a.heads % a.queries, b = row / a.heads / a.queries;
    float *place = a.lse + (b * a.heads + head) * a.queries + t;
    float keys = *place, sink = hil_attention_sink(a, head), most = fmaxf(keys, sink);
    float all = most + logf(expf(keys - most) + expf(sink - most)), part = expf(keys - all);
    for (int64_t d = threadIdx.x % 32 * HIL_WIDE; d < a.dim; d += 32 * HIL_WIDE) {
        int n = hil_wide_count(a.dim - d);
        float x[HIL_WIDE];
        hil_wide_read(hil_wide_load(a.out, row * a.dim + d, n), a.out.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[i] *= part;
        hil_wide_store(a.out, row * a.dim + d, n, x);
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) *place = all;
}

hil_status hil_attention_sinks_add(hil_device *device, const hil_cuda_attention *a)
{
    int64_t rows = a->batch * a->queries * a->heads;
    if (rows == 0) return HIL_OK;
    weigh<<<hil_blocks(rows, WARPS), THREADS, 0, hil_cuda_of(device)->stream>>>(*a);
    return hil_cuda_launched(device, "attention's sinks");
}

/* out (B, H) = minus the sink's weight times delta, over all queries; a block of threads has one
   head of one sequence. */
static __global__ void __launch_bounds__(THREADS)
    differentiate(const hil_cuda_attention a, float *out)
{
    __shared__ float shared[THREADS];
    const float *lse = a.lse + (int64_t)blockIdx.x * a.queries;
    const float *delta = a.delta + (int64_t)blockIdx.x * a.queries;
    float sink = hil_attention_sink(a, blockIdx.x % a.heads), sum = 0;
    for (int64_t t = threadIdx.x; t < a.queries; t += THREADS)
        sum -= expf(sink - lse[t]) * delta[t];
    shared[threadIdx.x] = sum;
    for (int step = THREADS / 2; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = shared[0];
}

hil_status hil_attention_sinks_backward(hil_device *device, const hil_cuda_attention *a, float *out)
{
    if (a->batch * a->queries * a->heads == 0) return HIL_OK;
    HIL_TRY(hil_attention_delta(device, a));
    differentiate<<<(unsigned)(a->batch * a->heads), THREADS, 0, hil_cuda_of(device)->stream>>>(
        *a, out);
    return hil_cuda_launched(device, "attention's sinks backward");
}
