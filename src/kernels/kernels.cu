/* kernels.cu - the store's arithmetic on a GPU: rounding, squares, sums over ranks. */
#include "device/cuda_device.h"
#include "kernels/cuda.h"
#include "kernels/cuda_gradient.h"

#define THREADS 256
#define WARPS (THREADS / 32)

/* Adds parts (ranks, count) in the order of ranks. */
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

hil_status hil_kernels_cuda_reduce(hil_device *device, hil_stream stream, const hil_tensor *out,
                                   const void *parts, int ranks)
{
    int64_t count = hil_shape_count(&out->shape);
    if (count == 0) return HIL_OK;
    hil_view from = {(void *)(uintptr_t)parts, out->dtype};
    add_parts<<<hil_blocks(count, THREADS * HIL_WIDE), THREADS, 0,
                hil_cuda_stream(device, stream)>>>(hil_view_of(out), from, ranks, count);
    return hil_cuda_launched(device, "add gradients");
}

/* A thread adds numbers that are THREADS apart, because the gradient has any alignment. */
static __global__ void __launch_bounds__(THREADS) add_gradient(const hil_addend a)
{
    int64_t at = (int64_t)blockIdx.x * THREADS * HIL_WIDE + threadIdx.x;
    float g[HIL_WIDE], sum[HIL_WIDE] = {};
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) {
        int64_t k = at + i * THREADS;
        if (k >= a.count) continue;
        if (a.dtype == HIL_F32)
            g[i] = ((const float *)a.gradient)[k];
        else if (a.dtype == HIL_BF16)
            g[i] = hil_bf16_load(((const uint16_t *)a.gradient)[k]);
        else
            g[i] = __half2float(((const __half *)a.gradient)[k]);
        if (!a.first) sum[i] = a.sum[k];
    }
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) {
        int64_t k = at + i * THREADS;
        if (k < a.count) a.sum[k] = a.first ? g[i] : sum[i] + g[i];
    }
}

hil_status hil_kernels_cuda_add(hil_device *device, hil_stream stream, const hil_addend *addend)
{
    if (addend->count == 0) return HIL_OK;
    add_gradient<<<hil_blocks(addend->count, THREADS * HIL_WIDE), THREADS, 0,
                   hil_cuda_stream(device, stream)>>>(*addend);
    return hil_cuda_launched(device, "add a gradient");
}

#define ROUND_WIDE 4 /* lanes of a thread */
#define ROUND_THREADS (HIL_SQUARES / ROUND_WIDE)
/* Loads in flight: each sum is a dependency chain, which would expose their latency. */
#define AHEAD 16
#define SQUARES_AHEAD 8
static_assert(HIL_CODEC_GROUP == HIL_SQUARES, "ranges are whole rows of lanes");

static_assert(sizeof(hil_rounding) <= 4096, "a kernel's arguments");

/* Rounds a thread's numbers into elements [at, at + ROUND_WIDE), if there is a place for them, and
   returns the rounded values. */
static __device__ inline float4 round_wide(const hil_rounding_range *s, hil_dtype dtype, int64_t at,
                                           float4 x)
{
    if (dtype == HIL_F32) {
        if (s->out && s->out != s->sum) *(float4 *)((float *)s->out + at) = x;
        return x;
    }
    uint2 bits;
    float2 low, high;
    if (dtype == HIL_BF16) {
        __nv_bfloat162 a = __floats2bfloat162_rn(x.x, x.y), b = __floats2bfloat162_rn(x.z, x.w);
        low = __bfloat1622float2(a), high = __bfloat1622float2(b);
        bits = {*(uint32_t *)&a, *(uint32_t *)&b};
    } else {
        __half2 a = __floats2half2_rn(x.x, x.y), b = __floats2half2_rn(x.z, x.w);
        low = __half22float2(a), high = __half22float2(b);
        bits = {*(uint32_t *)&a, *(uint32_t *)&b};
    }
    if (s->out) *(uint2 *)((uint16_t *)s->out + at) = bits;
    return {low.x, low.y, high.x, high.y};
}

/* Adds the lanes of a thread block in order. */
static __device__ inline void add_own_lanes(const double sum[ROUND_WIDE], double *square)
{
    __shared__ double lane[HIL_SQUARES];
#pragma unroll
    for (int k = 0; k < ROUND_WIDE; ++k) lane[threadIdx.x * ROUND_WIDE + k] = sum[k];
    __syncthreads();
    if (threadIdx.x) return;
    double all = 0;
#pragma unroll 16
    for (int k = 0; k < HIL_SQUARES; ++k) all += lane[k];
    *square = all;
}

/* One block of a member; a thread has ROUND_WIDE neighbouring lanes and adds each of them in order,
   as the CPU does. */
static __global__ void __launch_bounds__(ROUND_THREADS)
    round_blocks(const __grid_constant__ hil_rounding r)
{
    const hil_rounding_range *range = r.range;
    int64_t block = blockIdx.x;
    for (; block >= hil_rounding_range_blocks(range); ++range)
        block -= hil_rounding_range_blocks(range);
    int64_t number = range->first / HIL_BLOCK + block;
    int64_t first = number * HIL_BLOCK - range->first, end = first + HIL_BLOCK;
    bool begins = first >= 0, ends = end <= range->count || range->last;
    if (!begins) first = 0;
    if (end > range->count) end = range->count;
    double *lane = NULL, sum[ROUND_WIDE] = {};
    if (range->lanes) lane = range->lanes + number * HIL_SQUARES + threadIdx.x * ROUND_WIDE;
#pragma unroll
    for (int k = 0; k < ROUND_WIDE; ++k)
        if (lane && !begins) sum[k] = lane[k];
    for (int64_t at = first + threadIdx.x * ROUND_WIDE; at < end; at += AHEAD * HIL_SQUARES) {
        float4 x[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            if (at + i * HIL_SQUARES < end) x[i] = *(float4 *)(range->sum + at + i * HIL_SQUARES);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (at + i * HIL_SQUARES >= end) break;
            float4 g = round_wide(range, r.dtype, at + i * HIL_SQUARES, x[i]);
            sum[0] += (double)g.x * (double)g.x;
            sum[1] += (double)g.y * (double)g.y;
            sum[2] += (double)g.z * (double)g.z;
            sum[3] += (double)g.w * (double)g.w;
        }
    }
    if (!range->square) return;
    if (ends) {
        add_own_lanes(sum, range->square + number);
        return;
    }
#pragma unroll
    for (int k = 0; k < ROUND_WIDE; ++k) lane[k] = sum[k];
}

hil_status hil_kernels_cuda_round(hil_device *device, hil_stream stream, const hil_rounding *what)
{
    int64_t blocks = hil_rounding_blocks(what);
    if (blocks == 0) return HIL_OK;
    round_blocks<<<(unsigned)blocks, ROUND_THREADS, 0, hil_cuda_stream(device, stream)>>>(*what);
    return hil_cuda_launched(device, "round gradients");
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

hil_status hil_kernels_cuda_squared(hil_device *device, hil_stream stream, const double *lanes,
                                    int64_t blocks, double *shared)
{
    if (blocks == 0) return HIL_OK;
    add_lanes<<<(unsigned)blocks, HIL_SQUARES, 0, hil_cuda_stream(device, stream)>>>(lanes, shared);
    return hil_cuda_launched(device, "add squares");
}

static_assert(HIL_SQUARES == 32 * HIL_WIDE, "a warp has a block's lanes");

static __device__ inline void add_squares(double sum[HIL_WIDE], const float g[HIL_WIDE])
{
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) sum[i] += (double)g[i] * (double)g[i];
}

/* A warp has one block of the member, of which `b` has the elements from `first` on; a thread has
   HIL_WIDE neighbouring lanes and adds each of them in order, as the CPU does. */
static __global__ void __launch_bounds__(THREADS)
    square(const hil_block b, const int64_t first, double *lanes, const int64_t blocks)
{
    int64_t block = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (block >= blocks) return;
    int64_t number = first / HIL_BLOCK + block;
    int64_t at = number * HIL_BLOCK - first, end = at + HIL_BLOCK;
    int mine = threadIdx.x % 32 * HIL_WIDE;
    if (at < 0) at = 0;
    if (end > b.count) end = b.count;
    double *lane = &lanes[number * HIL_SQUARES + mine], sum[HIL_WIDE];
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) sum[i] = lane[i];
    at += mine;
    const uint16_t *only = (const uint16_t *)b.gradient[0];
    bool ahead = b.gradients == 1 && b.dtype != HIL_F32 && !b.sums;
    ahead = ahead && ((uintptr_t)(only + at) & 15) == 0;
    for (; ahead && at + (SQUARES_AHEAD - 1) * HIL_SQUARES + HIL_WIDE <= end;
         at += SQUARES_AHEAD * HIL_SQUARES) {
        uint4 raw[SQUARES_AHEAD];
#pragma unroll
        for (int i = 0; i < SQUARES_AHEAD; ++i)
            raw[i] = *(const uint4 *)(only + at + i * HIL_SQUARES);
#pragma unroll
        for (int i = 0; i < SQUARES_AHEAD; ++i) {
            float g[HIL_WIDE];
            hil_wide_read({raw[i].x, raw[i].y, raw[i].z, raw[i].w}, b.dtype, g);
            add_squares(sum, g);
        }
    }
    for (; at < end; at += HIL_SQUARES) {
        float g[HIL_WIDE];
        hil_block_wide_gradient(b, at, hil_wide_count(end - at), g); /* zeros beyond the end */
        add_squares(sum, g);
    }
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) lane[i] = sum[i];
}

hil_status hil_kernels_cuda_square(hil_device *device, hil_stream stream, const hil_block *block,
                                   int64_t first, double *lanes)
{
    if (block->count == 0 || block->gradients == 0) return HIL_OK;
    cudaStream_t on = hil_cuda_stream(device, stream);
    int64_t blocks = (first + block->count - 1) / HIL_BLOCK - first / HIL_BLOCK + 1;
    square<<<hil_blocks(blocks, WARPS), THREADS, 0, on>>>(*block, first, lanes, blocks);
    return hil_cuda_launched(device, "square gradients");
}
