/* softmax.cu - cross-entropy of rows of logits and its gradient, at memory bandwidth.

   [Note: rows in flight] The blocks of a cluster share a row. Each keeps a slice in registers, from
   the sum to the gradient, so that logits are read once. The kernel is persistent: blocks take row
   after row, and prefetch the slice of the next row into shared memory. The registers hold
   exp(logit - the thread's largest): the gradient is that times one number. */
#include "ops/loss/softmax_cuda.h"

#include <cooperative_groups.h>

#define LANES 32
#define THREADS 1024   /* of a block at most */
#define RUN 4          /* numbers that a thread takes at once */
#define HELD 8         /* runs that a thread holds */
#define CLUSTER 8      /* blocks of a row at most */
#define OWN_BYTES 8192 /* of shared memory, besides the prefetched rows */
#define LOG2_E 1.44269504f
#define LN_2 0.69314718f

/* The partial log-sum-exp of some numbers times log2(e): the largest, and the sum of
   2^(number - largest). */
typedef struct total {
    float most, sum;
} total;

static __device__ inline float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The number that is subtracted before the power: finite even without numbers, so that no NaN
   arises. */
static __device__ inline float base_of(float most)
{
    return most == -INFINITY ? 0 : most;
}

static __device__ inline float warp_most(float x)
{
    for (int step = LANES / 2; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

static __device__ inline float warp_sum(float x)
{
    for (int step = LANES / 2; step; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/* The total of a warp's threads; every one of them gets it. */
static __device__ inline total warp_total(total mine)
{
    float most = warp_most(mine.most);
    return {most, warp_sum(mine.sum * power_of_2(mine.most - base_of(most)))};
}

/* The total of `count` parts in shared memory. */
static __device__ inline total merge(const total *part, int count)
{
    total all = {-INFINITY, 0};
    for (int i = (int)threadIdx.x % LANES; i < count; i += LANES)
        all.most = fmaxf(all.most, part[i].most);
    all.most = warp_most(all.most);
    for (int i = (int)threadIdx.x % LANES; i < count; i += LANES)
        all.sum += part[i].sum * power_of_2(part[i].most - base_of(all.most));
    all.sum = warp_sum(all.sum);
    return all;
}

static __device__ inline float loss_of(total all, float of_target)
{
    return (log2f(all.sum) - __fmaf_rn(of_target, LOG2_E, -all.most)) * LN_2;
}

/* Negative for none. */
static __device__ inline int target_of(const hil_softmax &s, int64_t row)
{
    return hil_targets_id(s.target[row], s.prompts);
}

static __device__ inline float scale_of(const hil_softmax &s, int64_t row)
{
    return s.scale ? s.scale[row] : s.loss_scale;
}

/* The target of a row, negative for none. */
static __device__ inline int checked_target(const hil_softmax &s, int64_t row,
                                            hil_cuda_fault *fault)
{
    int target = target_of(s, row);
    if (target < s.vocab) return target;
    if (threadIdx.x == 0) hil_fault_report(fault, target, s.vocab);
    return -1;
}

/* A block reads a piece of a row before it writes the gradient of that piece. In 16 bits the
   gradient ends before the logits that are still to be read. */
static __global__ void __launch_bounds__(THREADS)
    finish_rows(const hil_softmax s, hil_cuda_fault *fault)
{
    __shared__ total part[THREADS / LANES];
    float *row = s.logits + blockIdx.x * s.stride, of_target = 0, x[HIL_WIDE];
    int target = checked_target(s, blockIdx.x, fault);
    total all = {0, 1};
    if (target >= 0) {
        total mine = {-INFINITY, 0};
        of_target = row[target];
        for (int64_t at = threadIdx.x * HIL_WIDE; at < s.vocab; at += THREADS * HIL_WIDE) {
            int n = hil_wide_count(s.vocab - at);
            float before = mine.most, most = -INFINITY;
            hil_wide_read(hil_wide_load({row, HIL_F32}, at, n), HIL_F32, x);
#pragma unroll
            for (int i = 0; i < HIL_WIDE; ++i) most = i < n ? fmaxf(most, x[i]) : most;
            mine.most = fmaxf(before, most * LOG2_E);
            float base = base_of(mine.most);
            mine.sum *= power_of_2(before - base);
#pragma unroll
            for (int i = 0; i < HIL_WIDE; ++i)
                mine.sum += i < n ? power_of_2(__fmaf_rn(x[i], LOG2_E, -base)) : 0;
        }
        mine = warp_total(mine);
        if (threadIdx.x % LANES == 0) part[threadIdx.x / LANES] = mine;
        __syncthreads();
        all = merge(part, THREADS / LANES);
    }
    if (threadIdx.x == 0) s.loss[blockIdx.x] = target < 0 ? 0 : loss_of(all, of_target);
    if (!s.differentiate) return;
    float scale = scale_of(s, blockIdx.x), factor = scale / all.sum, base = base_of(all.most);
    __syncthreads();
    for (int64_t first = 0; first < s.vocab; first += THREADS * HIL_WIDE) {
        int64_t at = first + threadIdx.x * HIL_WIDE;
        int n = hil_wide_count(s.vocab - at);
        if (target >= 0) hil_wide_read(hil_wide_load({row, HIL_F32}, at, n), HIL_F32, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            x[i] = target < 0 ? 0 : power_of_2(__fmaf_rn(x[i], LOG2_E, -base)) * factor;
            if (at + i == target) x[i] -= scale;
        }
        __syncthreads();
        if (n) hil_wide_store({row, s.compute}, at, n, x);
    }
}

/* How rows are shared: `blocks` to a cluster, `slice` numbers to a block. */
typedef struct sharing {
    int blocks, threads, slice;
} sharing;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
static __device__ inline unsigned address(const void *shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}

static __device__ inline void prepare(uint64_t *arrival)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(arrival)) : "memory");
}

/* Makes the barrier `arrival` expect this many bytes. */
static __device__ inline void expect(uint64_t *arrival, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(arrival)),
                 "r"(bytes)
                 : "memory");
}

static __device__ inline void fetch(float *to, const float *from, int count, uint64_t *arrival)
{
    int bytes = count * (int)sizeof *to;
    expect(arrival, bytes);
    if (bytes == 0) return;
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(address(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(address(arrival))
                 : "memory");
}

static __device__ inline void await(uint64_t *arrival, int turn)
{
    unsigned there = 0;
    while (!there)
        asm volatile("{ .reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p; }"
                     : "=r"(there)
                     : "r"(address(arrival)), "r"(turn & 1)
                     : "memory");
}

/* Sends a total to another block of the cluster, whose barrier `arrival` counts the bytes. Both are
   addresses in this block's shared memory; the same offsets are used in the other's. */
static __device__ inline void send(total *to, uint64_t *arrival, total what, int block)
{
    unsigned there, delivered;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(address(to)), "r"(block));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(delivered)
                 : "r"(address(arrival)), "r"(block));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 "
                 "[%0], {%1, %2}, [%3];" ::"r"(there),
                 "f"(what.most), "f"(what.sum), "r"(delivered)
                 : "memory");
}

/* Reads a thread's part of a slice of `count` numbers; numbers beyond them are -infinity. */
static __device__ inline void hold(float x[HELD][RUN], const float *slice, int count)
{
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int at = (k * (int)blockDim.x + (int)threadIdx.x) * RUN;
        float4 run = *(const float4 *)(slice + at);
        x[k][0] = run.x, x[k][1] = run.y, x[k][2] = run.z, x[k][3] = run.w;
        if (at + RUN <= count) continue;
#pragma unroll
        for (int i = 0; i < RUN; ++i) x[k][i] = at + i < count ? x[k][i] : -INFINITY;
    }
}

/* Replaces the numbers by 2^(number * log2(e) - largest). */
static __device__ inline total hold_exp(float x[HELD][RUN])
{
    float most = -INFINITY, sum[RUN] = {};
#pragma unroll
    for (int k = 0; k < HELD; ++k)
        most = fmaxf(most, fmaxf(fmaxf(x[k][0], x[k][1]), fmaxf(x[k][2], x[k][3])));
    most *= LOG2_E;
    float base = base_of(most);
#pragma unroll
    for (int k = 0; k < HELD; ++k)
#pragma unroll
        for (int i = 0; i < RUN; ++i) {
            x[k][i] = power_of_2(__fmaf_rn(x[k][i], LOG2_E, -base));
            sum[i] += x[k][i];
        }
    return {most, (sum[0] + sum[1]) + (sum[2] + sum[3])};
}

/* The numbers of a row that a block has. */
typedef struct slice {
    int first, count;
} slice;

/* Writes the gradient, except at the target: what the registers hold times `factor`. The last run
   of a row may go beyond it. */
template <hil_dtype DTYPE>
static __device__ inline void store(float *row, slice mine, const float x[HELD][RUN], float factor)
{
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int at = (k * (int)blockDim.x + (int)threadIdx.x) * RUN;
        float y[] = {x[k][0] * factor, x[k][1] * factor, x[k][2] * factor, x[k][3] * factor};
        if (at >= mine.count) break;
        at += mine.first;
        if (DTYPE == HIL_F32) {
            *(float4 *)(row + at) = make_float4(y[0], y[1], y[2], y[3]);
        } else if (DTYPE == HIL_BF16) {
            __nv_bfloat162 two[] = {__floats2bfloat162_rn(y[0], y[1]),
                                    __floats2bfloat162_rn(y[2], y[3])};
            *(uint2 *)((uint16_t *)row + at) = *(const uint2 *)two;
        } else {
            __half2 two[] = {__floats2half2_rn(y[0], y[1]), __floats2half2_rn(y[2], y[3])};
            *(uint2 *)((uint16_t *)row + at) = *(const uint2 *)two;
        }
    }
}

/* The thread that stored the run with the target corrects the target's gradient. */
static __device__ inline void store_target(const hil_softmax &s, float *row, slice mine, int target,
                                           float gradient)
{
    if ((target - mine.first) / RUN % (int)blockDim.x != (int)threadIdx.x) return;
    float y[HIL_WIDE] = {gradient};
    hil_wide_store({row, s.compute}, target, 1, y);
}

/* See [Note: rows in flight]. The last row comes first: it was written last and may still be in the
   cache. Every block of the cluster gets the totals of a row; even and odd rows use separate
   buffers, because a block may be one row ahead. */
static __global__ void __launch_bounds__(THREADS)
    finish_shared_rows(const hil_softmax s, const sharing how, hil_cuda_fault *fault)
{
    extern __shared__ __align__(128) float fetched[];
    __shared__ uint64_t arrived, delivered[2];
    __shared__ total part[2][CLUSTER * THREADS / LANES];
    int warps = (int)blockDim.x / LANES, warp = (int)threadIdx.x / LANES;
    int lane = (int)threadIdx.x % LANES, rank = (int)blockIdx.x % how.blocks;
    int clusters = (int)gridDim.x / how.blocks, left = (int)s.vocab - rank * how.slice;
    slice mine = {rank * how.slice, left < 0 ? 0 : left < how.slice ? left : how.slice};
    int padded = (mine.count + RUN - 1) / RUN * RUN;
    int64_t row = s.rows - 1 - blockIdx.x / how.blocks;
    float *numbers = s.logits + row * s.stride;
    if (threadIdx.x == 0) {
        prepare(&arrived), prepare(&delivered[0]), prepare(&delivered[1]);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cooperative_groups::this_cluster().sync();
    if (threadIdx.x == 0) fetch(fetched, numbers + mine.first, padded, &arrived);
    int target = target_of(s, row);
    for (int n = 0; row >= 0; ++n, row -= clusters, numbers -= clusters * s.stride) {
        float x[HELD][RUN], of_target = 0;
        int next = row < clusters ? -1 : target_of(s, row - clusters);
        if (target >= s.vocab) {
            if (threadIdx.x == 0) hil_fault_report(fault, target, s.vocab);
            target = -1;
        }
        bool here = target >= mine.first && target < mine.first + mine.count;
        await(&arrived, n);
        hold(x, fetched, target < 0 ? 0 : mine.count);
        if (here) of_target = fetched[target - mine.first];
        __syncthreads();
        if (threadIdx.x == 0) {
            expect(&delivered[n % 2], how.blocks * warps * (int)sizeof(total));
            if (row >= clusters)
                fetch(fetched, numbers - clusters * s.stride + mine.first, padded, &arrived);
        }
        total own = hold_exp(x), of_warp = warp_total(own);
        if (lane < how.blocks)
            send(&part[n % 2][rank * warps + warp], &delivered[n % 2], of_warp, lane);
        await(&delivered[n % 2], n / 2);
        total all = merge(part[n % 2], how.blocks * warps);
        float base = base_of(all.most), over = 1 / all.sum;
        if (threadIdx.x == 0 && (here || (target < 0 && rank == 0)))
            s.loss[row] = here ? loss_of(all, of_target) : 0;
        if (s.differentiate) {
            float scale = scale_of(s, row);
            float factor = target < 0 ? 0 : scale * over * power_of_2(own.most - base);
            if (s.compute == HIL_BF16)
                store<HIL_BF16>(numbers, mine, x, factor);
            else if (s.compute == HIL_F16)
                store<HIL_F16>(numbers, mine, x, factor);
            else
                store<HIL_F32>(numbers, mine, x, factor);
            if (here)
                store_target(s, numbers, mine, target,
                             (power_of_2(__fmaf_rn(of_target, LOG2_E, -base)) * over - 1) * scale);
        }
        target = next;
    }
}
#else
static __global__ void finish_shared_rows(const hil_softmax, const sharing, hil_cuda_fault *)
{
}
#endif

static size_t fetched_bytes(const sharing &how)
{
    return (size_t)(how.threads * HELD * RUN) * sizeof(float);
}

/* The fewest blocks that hold a row and of which two fit on a multiprocessor, so that one computes
   while the other waits; larger blocks if the row needs them. None, if the row is too large or one
   block holds it, or if this GPU, or the architecture that was compiled for, has no clusters. */
static sharing share(const hil_device *device, int64_t vocab)
{
    int bytes = 0;
    cudaFuncAttributes made = {};
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                           hil_cuda_of(device)->index);
    cudaFuncGetAttributes(&made, finish_shared_rows);
    for (int blocks = 1; made.ptxVersion >= 90 && blocks <= CLUSTER; blocks *= 2) {
        int64_t unit = blocks * HIL_LOGIT_UNIT, runs = LANES * HELD * RUN;
        int64_t size = (vocab + unit - 1) / unit * HIL_LOGIT_UNIT;
        int64_t threads = (size + runs - 1) / runs * LANES;
        if (threads == 0 || threads > (blocks < CLUSTER ? THREADS / 2 : THREADS)) continue;
        sharing how = {blocks, (int)threads, (int)size};
        if (fetched_bytes(how) + OWN_BYTES <= (size_t)bytes) return blocks > 1 ? how : sharing{};
    }
    return {};
}

/* Launches as many clusters as run at once: one more would run after them and double the time. */
static hil_status launch_shared(const hil_device *device, const hil_softmax &s, const sharing &how)
{
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
    cluster.val.clusterDim = {(unsigned)how.blocks, 1, 1};
    cudaLaunchConfig_t config = {.gridDim = dim3((unsigned)how.blocks),
                                 .blockDim = dim3((unsigned)how.threads),
                                 .dynamicSmemBytes = fetched_bytes(how),
                                 .stream = hil_cuda_of(device)->stream,
                                 .attrs = &cluster,
                                 .numAttrs = 1};
    int clusters = 0;
    cudaError_t bad = cudaFuncSetAttribute(
        finish_shared_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)fetched_bytes(how));
    if (!bad) bad = cudaOccupancyMaxActiveClusters(&clusters, finish_shared_rows, &config);
    if (!bad) {
        config.gridDim.x *= (unsigned)(clusters < s.rows ? clusters : s.rows);
        bad = cudaLaunchKernelEx(&config, finish_shared_rows, s, how, hil_cuda_of(device)->fault);
    }
    return hil_cuda_check(device, bad, "head");
}

hil_status hil_softmax_cuda(hil_device *device, const hil_softmax *job)
{
    if (job->rows == 0) return HIL_OK;
    sharing how = share(device, job->vocab);
    if (how.blocks) return launch_shared(device, *job, how);
    finish_rows<<<(unsigned)job->rows, THREADS, 0, hil_cuda_of(device)->stream>>>(
        *job, hil_cuda_of(device)->fault);
    return hil_cuda_launched(device, "head");
}
