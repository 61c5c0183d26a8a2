/* norm_bf16.cu - norms of long rows of bf16; see [Note: rows of a norm]. */
#include "ops/norm/norm_cuda.h"

#include <cuda_pipeline.h>

/* HIL_WIDE numbers of an aligned vector of fp32. */
static __device__ inline void read_vector(const void *data, int col, float out[HIL_WIDE])
{
    const float4 *from = (const float4 *)((const float *)data + col);
    float4 low = from[0], high = from[1];
    out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
    out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
}

static __device__ inline void read_bf16(const uint4 &raw, float out[HIL_WIDE])
{
    hil_wide_read({raw.x, raw.y, raw.z, raw.w}, HIL_BF16, out);
}

/* One warp per row of bf16 numbers. */
template <int KEPT, bool CENTERED>
static __global__ void __launch_bounds__(HIL_NORM_THREADS, KEPT > 8 ? 2 : 5 - KEPT / 4)
    normalize_bf16(const hil_norm_job j)
{
    int lane = (int)threadIdx.x % 32, cols = (int)j.cols;
    int64_t row = ((int64_t)blockIdx.x * HIL_NORM_THREADS + threadIdx.x) / 32;
    if (row >= j.rows) return;
    const uint16_t *from = (const uint16_t *)j.x.data + row * cols;
    uint4 raw[KEPT];
    float x[HIL_WIDE], sum = 0, mean = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int col = (k * 32 + lane) * HIL_WIDE;
        raw[k] = col < cols ? *(const uint4 *)(from + col) : uint4{};
    }
#pragma unroll
    for (int k = 0; k < KEPT && CENTERED; ++k) {
        read_bf16(raw[k], x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum += x[i];
    }
    if (CENTERED) mean = hil_norm_row_sum(sum, 32, NULL) / (float)cols;
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        if (CENTERED && (k * 32 + lane) * HIL_WIDE >= cols) continue;
        read_bf16(raw[k], x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) squares = fmaf(x[i] - mean, x[i] - mean, squares);
    }
    float scale = 1.0f / sqrtf(hil_norm_row_sum(squares, 32, NULL) / (float)cols + j.eps);
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        int col = (k * 32 + lane) * HIL_WIDE;
        if (col >= cols) continue;
        float w[HIL_WIDE], b[HIL_WIDE] = {};
        read_bf16(raw[k], x);
        read_vector(j.weight.data, col, w);
        if (CENTERED) read_vector(j.bias.data, col, b);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[i] = (x[i] - mean) * scale * w[i] + b[i];
        uint32_t word[HIL_WIDE / 2];
        hil_wide_round(x, HIL_BF16, word);
        *(uint4 *)((uint16_t *)j.y.data + row * cols + col) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
    if (lane) return;
    if (CENTERED) j.saved[2 * row] = mean;
    j.saved[CENTERED ? 2 * row + 1 : row] = scale;
}

/* Two sums over the threads of a block; every thread gets them. */
static __device__ inline float2 block_sums(float2 x, float2 shared[32])
{
    for (int step = 16; step; step /= 2) {
        x.x += __shfl_xor_sync(0xffffffffu, x.x, step);
        x.y += __shfl_xor_sync(0xffffffffu, x.y, step);
    }
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    float2 sum = {};
    for (int i = 0; i < (int)blockDim.x / 32; ++i) sum.x += shared[i].x, sum.y += shared[i].y;
    return sum;
}

/* Backward: a thread has HIL_WIDE numbers of each row, and prefetches DEPTH - 1
   rows into its own part of shared memory. */
template <int DEPTH, bool CENTERED>
static __global__ void __launch_bounds__(HIL_NORM_MOST) differentiate_bf16(const hil_norm_job j)
{
    extern __shared__ uint4 ring[]; /* (DEPTH, x dy dx, threads) */
    __shared__ float2 shared[2][32];
    uint4 *mine = ring + threadIdx.x;
    int64_t first = (int64_t)blockIdx.x * j.block_rows, end = first + j.block_rows;
    if (end > j.rows) end = j.rows;
    int col = (int)threadIdx.x * HIL_WIDE, n = col < j.cols ? HIL_WIDE : 0;
    auto fetch = [&](int64_t row) {
        uint4 *to = mine + (row - first) % DEPTH * 3 * blockDim.x;
        if (row < end && n) {
            int64_t at = row * j.cols + col;
            __pipeline_memcpy_async(to, (uint16_t *)j.x.data + at, 16);
            __pipeline_memcpy_async(to + blockDim.x, (uint16_t *)j.dy.data + at, 16);
            if (j.add) __pipeline_memcpy_async(to + 2 * blockDim.x, (uint16_t *)j.dx.data + at, 16);
        }
        __pipeline_commit();
    };
    auto arrived = [&](int64_t row, int which, float out[HIL_WIDE]) {
        read_bf16(mine[((row - first) % DEPTH * 3 + which) * blockDim.x], out);
    };
    for (int i = 0; i < DEPTH; ++i) mine[i * 3 * blockDim.x] = mine[(i * 3 + 1) * blockDim.x] = {};
    for (int i = 0; i < DEPTH - 1; ++i) fetch(first + i);
    float w[HIL_WIDE] = {}, dw[HIL_WIDE] = {}, db[HIL_WIDE] = {};
    if (n) read_vector(j.weight.data, col, w);
    const float *saved = j.saved + (CENTERED ? 2 * first : first);
    float mean = CENTERED ? saved[0] : 0, scale = saved[CENTERED];
    for (int64_t row = first; row < end; ++row) {
        fetch(row + DEPTH - 1);
        if (row + 1 < end) saved += CENTERED ? 2 : 1;
        float next_mean = CENTERED ? saved[0] : 0, next_scale = saved[CENTERED];
        __pipeline_wait_prior(DEPTH - 1);
        float x[HIL_WIDE], dy[HIL_WIDE], plain = 0, along = 0;
        arrived(row, 0, x);
        arrived(row, 1, dy);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            x[i] = (x[i] - mean) * scale;
            dw[i] = fmaf(dy[i], x[i], dw[i]);
            if (CENTERED) db[i] += dy[i];
            dy[i] *= w[i];
            if (CENTERED) plain += dy[i];
            along = fmaf(dy[i], x[i], along);
        }
        if (j.dx.data) {
            float2 *slots = shared[(row - first) % 2];
            float2 sums = CENTERED
                              ? block_sums({plain, along}, slots)
                              : float2{0, hil_norm_row_sum(along, (int)blockDim.x, (float *)slots)};
            plain = sums.x / (float)j.cols, along = sums.y / (float)j.cols;
            float held[HIL_WIDE] = {};
            if (j.add) arrived(row, 2, held);
#pragma unroll
            for (int i = 0; i < HIL_WIDE; ++i)
                dy[i] = held[i] + scale * (dy[i] - plain - x[i] * along);
            if (n) hil_wide_store({j.dx.data, HIL_BF16}, row * j.cols + col, HIL_WIDE, dy);
        }
        mean = next_mean, scale = next_scale;
    }
    int64_t at = blockIdx.x * j.cols + col;
    if (j.dweight && n) hil_wide_store({j.dweight, HIL_F32}, at, HIL_WIDE, dw);
    if (CENTERED && j.dbias && n) hil_wide_store({j.dbias, HIL_F32}, at, HIL_WIDE, db);
}

/* bf16, aligned to 16 bytes, or absent. */
static bool is_bf16(const hil_view &x)
{
    return !x.data || (x.dtype == HIL_BF16 && (uintptr_t)x.data % 16 == 0);
}

static bool is_vector(const hil_view &x)
{
    return !x.data || (x.dtype == HIL_F32 && (uintptr_t)x.data % 16 == 0);
}

static bool is_plain(const hil_norm_job &j)
{
    return is_bf16(j.x) && is_bf16(j.y) && is_bf16(j.dy) && is_bf16(j.dx) && is_vector(j.weight) &&
           is_vector(j.bias) && j.cols % HIL_WIDE == 0 && j.cols > HIL_NORM_WARP &&
           j.cols <= HIL_NORM_MOST * HIL_WIDE && j.heads == 1;
}

template <bool CENTERED> static bool launch_forward(const hil_norm_job &j, cudaStream_t stream)
{
    unsigned blocks = hil_blocks(j.rows, HIL_NORM_THREADS / 32);
    if (!is_plain(j) || j.cols > 16 * HIL_NORM_WARP) return false;
    if (j.cols <= 4 * HIL_NORM_WARP)
        normalize_bf16<4, CENTERED><<<blocks, HIL_NORM_THREADS, 0, stream>>>(j);
    else if (j.cols <= 8 * HIL_NORM_WARP)
        normalize_bf16<8, CENTERED><<<blocks, HIL_NORM_THREADS, 0, stream>>>(j);
    else if (j.cols <= 12 * HIL_NORM_WARP)
        normalize_bf16<12, CENTERED><<<blocks, HIL_NORM_THREADS, 0, stream>>>(j);
    else
        normalize_bf16<16, CENTERED><<<blocks, HIL_NORM_THREADS, 0, stream>>>(j);
    return true;
}

/* Prefetches as many rows as 96 KiB of shared memory hold. */
template <bool CENTERED> static bool launch_backward(const hil_norm_job &j, cudaStream_t stream)
{
    if (!is_plain(j)) return false;
    unsigned blocks = hil_blocks(j.rows, j.block_rows);
    int threads = hil_norm_team_of(j.cols).threads, deep = threads <= HIL_NORM_MOST / 2;
    void (*kernel)(hil_norm_job) =
        deep ? differentiate_bf16<4, CENTERED> : differentiate_bf16<2, CENTERED>;
    size_t shared = (size_t)(threads * (deep ? 4 : 2) * 3) * sizeof(uint4);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    kernel<<<blocks, threads, shared, stream>>>(j);
    return true;
}

bool hil_norm_bf16_forward(const hil_norm_job &j, bool centered, cudaStream_t stream)
{
    return centered ? launch_forward<true>(j, stream) : launch_forward<false>(j, stream);
}

bool hil_norm_bf16_backward(const hil_norm_job &j, bool centered, cudaStream_t stream)
{
    return centered ? launch_backward<true>(j, stream) : launch_backward<false>(j, stream);
}
