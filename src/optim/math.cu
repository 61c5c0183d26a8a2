/* math.cu - the store's arithmetic on a GPU: rounding, sums over ranks, and the table of it all. */
#include "ops/cuda_kernel.h"
extern "C" {
#include "optim/sweep.h"
}
#include "optim/cuda.h"

#define THREADS 256

/* Adds parts (ranks, count) in their order. */
static __global__ void __launch_bounds__(THREADS)
    add_parts(const hil_view out, const hil_view parts, const int ranks, const int64_t count)
{
    int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * HIL_WIDE;
    int n = hil_wide_count(count - at);
    if (n == 0) return;
    float sum[HIL_WIDE], part[HIL_WIDE];
    hil_wide_read(hil_wide_load(parts, at, n), parts.dtype, sum);
    for (int r = 1; r < ranks; ++r) {
        hil_wide_read(hil_wide_load(parts, r * count + at, n), parts.dtype, part);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum[i] += part[i];
    }
    hil_wide_store(out, at, n, sum);
}

static hil_status add(cudaStream_t stream, const hil_device *device, const hil_tensor *out,
                      hil_view parts, int ranks)
{
    int64_t count = hil_shape_count(&out->shape);
    if (count == 0) return HIL_OK;
    add_parts<<<hil_blocks(count, THREADS * HIL_WIDE), THREADS, 0, stream>>>(hil_view_of(out),
                                                                             parts, ranks, count);
    return hil_cuda_launched(device, "add gradients");
}

static hil_status round_sum(hil_device *device, hil_stream stream, const hil_tensor *out,
                            const float *sum)
{
    return add(hil_cuda_stream(device, stream), device, out, {(void *)sum, HIL_F32}, 1);
}

static hil_status reduce(hil_device *device, hil_stream stream, const hil_tensor *out,
                         const void *parts, int ranks)
{
    return add(hil_cuda_stream(device, stream), device, out, {(void *)parts, out->dtype}, ranks);
}

static __global__ void __launch_bounds__(HIL_SQUARES) add_lanes(const double *lanes, double *shared)
{
    __shared__ double lane[HIL_SQUARES];
    lane[threadIdx.x] = lanes[(int64_t)blockIdx.x * HIL_SQUARES + threadIdx.x];
    __syncthreads();
    if (threadIdx.x) return;
    double sum = 0;
#pragma unroll 16
    for (int i = 0; i < HIL_SQUARES; ++i) sum += lane[i];
    shared[blockIdx.x] = sum;
}

static hil_status squared(hil_device *device, hil_stream stream, const double *lanes,
                          int64_t blocks, double *shared)
{
    if (blocks == 0) return HIL_OK;
    add_lanes<<<(unsigned)blocks, HIL_SQUARES, 0, hil_cuda_stream(device, stream)>>>(lanes, shared);
    return hil_cuda_launched(device, "add squares");
}

static hil_status update(hil_device *device, hil_stream stream, const void *rule,
                         const hil_block *block)
{
    const hil_sweep_rule *sweep = (const hil_sweep_rule *)rule;
    return hil_cuda_update(device, stream, sweep->rule, &sweep->step[block->decay], block);
}

const hil_device_math hil_cuda_math = {.round = round_sum,
                                       .square = hil_cuda_square,
                                       .squared = squared,
                                       .update = update,
                                       .reduce = reduce};
