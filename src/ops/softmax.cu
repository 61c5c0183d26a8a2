/* softmax.cu - cross-entropy of rows of logits and its gradient: as fast as memory is.

   [Note: rows in flight] A row is shared by the blocks of a cluster, each of which holds a slice in
   registers from its total to its gradient, so that logits are read once. Blocks stay and take row
   after row; while they work on one, the slices of those that follow come into shared memory. What
   is held is exp(logit - the thread's largest): the gradient is that times one number. */
#include "ops/softmax_cuda.h"

#include <cooperative_groups.h>

#define LANES 32
#define THREADS 1024   /* of a block at most */
#define RUN 4          /* numbers that a thread takes at once */
#define HELD 8         /* runs that a thread holds */
#define CLUSTER 8      /* blocks of a row at most */
#define STAGES 1       /* slices on their way to a block at most: another works meanwhile */
#define OWN_BYTES 8192 /* of shared memory, for what is not fetched */
#define LOG2_E 1.44269504f
#define LN_2 0.69314718f

/* Of some numbers times log2 of e: the largest, and the sum of 2^(number - largest). */
typedef struct total {
    float most, sum;
} total;

static __device__ inline float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* What is taken off before a power is: no number gives no NaN. */
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

/* The target of a row, negative for none. */
static __device__ inline int checked_target(const hil_softmax &s, int64_t row,
                                            hil_cuda_fault *fault)
{
    int target = s.target[row];
    if (target < s.vocab) return target;
    if (threadIdx.x == 0) hil_fault_report(fault, target, s.vocab);
    return -1;
}

/* Row by row a block first reads a piece, then writes it: in 16 bits it ends before what is still
   to be read. */
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
    float factor = s.loss_scale / all.sum, base = base_of(all.most);
    __syncthreads();
    for (int64_t first = 0; first < s.vocab; first += THREADS * HIL_WIDE) {
        int64_t at = first + threadIdx.x * HIL_WIDE;
        int n = hil_wide_count(s.vocab - at);
        if (target >= 0) hil_wide_read(hil_wide_load({row, HIL_F32}, at, n), HIL_F32, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            x[i] = target < 0 ? 0 : power_of_2(__fmaf_rn(x[i], LOG2_E, -base)) * factor;
            if (at + i == target) x[i] -= s.loss_scale;
        }
        __syncthreads();
        if (n) hil_wide_store({row, s.compute}, at, n, x);
    }
}

/* How rows are shared: `blocks` to a cluster, `slice` numbers to a block, `stages` slices on their
   way to it. */
typedef struct sharing {
    int blocks, threads, slice, stages;
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

/* `arrival` is reached again with the last of so many bytes. */
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

/* A total goes to a block of the cluster, which counts its bytes at `arrival`. Both are addresses
   in this block's memory, and mean the same place in the other's. */
static __device__ inline void send(total *to, uint64_t *arrival, total what, int block)
{
    unsigned there, told;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(address(to)), "r"(block));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(told)
                 : "r"(address(arrival)), "r"(block));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 "
                 "[%0], {%1, %2}, [%3];" ::"r"(there),
                 "f"(what.most), "f"(what.sum), "r"(told)
                 : "memory");
}

/* Reads what a thread holds of a slice of which `count` numbers exist; the others are -infinity. */
static __device__ inline void hold(float x[HELD][RUN], const float *slice, int count)
{
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int at = (k * (int)blockDim.x + (int)threadIdx.x) * RUN;
        float4 run = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
        if (at < count) run = *(const float4 *)(slice + at);
        if (at < count && at + RUN > count) {
            run.y = at + 1 < count ? run.y : -INFINITY;
            run.z = at + 2 < count ? run.z : -INFINITY;
            run.w = -INFINITY;
        }
        x[k][0] = run.x, x[k][1] = run.y, x[k][2] = run.z, x[k][3] = run.w;
    }
}

/* 2^(number * log2 of e - largest) takes the place of the numbers. */
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

/* Rounds a run once; the last one of a row may go beyond it. */
static __device__ inline void store_run(hil_view to, int64_t at, const float y[RUN])
{
    if (to.dtype == HIL_F32) {
        *(float4 *)((float *)to.data + at) = make_float4(y[0], y[1], y[2], y[3]);
    } else if (to.dtype == HIL_BF16) {
        __nv_bfloat162 pair[] = {__floats2bfloat162_rn(y[0], y[1]),
                                 __floats2bfloat162_rn(y[2], y[3])};
        *(uint2 *)((uint16_t *)to.data + at) = *(const uint2 *)pair;
    } else {
        __half2 pair[] = {__floats2half2_rn(y[0], y[1]), __floats2half2_rn(y[2], y[3])};
        *(uint2 *)((uint16_t *)to.data + at) = *(const uint2 *)pair;
    }
}

/* The numbers of a row that a block has. */
typedef struct slice {
    int first, count;
} slice;

/* The gradient is what is held times `factor`, and less by `scale` at the target. */
static __device__ inline void store(hil_view to, slice mine, const float x[HELD][RUN], float factor,
                                    int target, float scale)
{
#pragma unroll
    for (int k = 0; k < HELD; ++k) {
        int at = (k * (int)blockDim.x + (int)threadIdx.x) * RUN, away = target - mine.first - at;
        float y[RUN];
#pragma unroll
        for (int i = 0; i < RUN; ++i) y[i] = x[k][i] * factor;
        if (away >= 0 && away < RUN) {
#pragma unroll
            for (int i = 0; i < RUN; ++i) y[i] = i == away ? y[i] - scale : y[i];
        }
        if (at < mine.count) store_run(to, mine.first + at, y);
    }
}

/* See [Note: rows in flight]. The last row comes first: it was written last and may still be in the
   cache. Totals of a row go to every block of the cluster, those of odd rows to other places: a
   block is at most one row ahead. */
static __global__ void __launch_bounds__(THREADS)
    finish_shared_rows(const hil_softmax s, const sharing how, hil_cuda_fault *fault)
{
    extern __shared__ __align__(128) float fetched[];
    __shared__ uint64_t arrived[STAGES], told[2];
    __shared__ total part[2][CLUSTER * THREADS / LANES];
    int warps = (int)blockDim.x / LANES, warp = (int)threadIdx.x / LANES;
    int lane = (int)threadIdx.x % LANES, rank = (int)blockIdx.x % how.blocks;
    int clusters = (int)gridDim.x / how.blocks, left = (int)s.vocab - rank * how.slice;
    slice mine = {rank * how.slice, left < 0 ? 0 : left < how.slice ? left : how.slice};
    int padded = (mine.count + RUN - 1) / RUN * RUN;
    if (threadIdx.x == 0) {
        for (int i = 0; i < how.stages; ++i) prepare(&arrived[i]);
        prepare(&told[0]), prepare(&told[1]);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cooperative_groups::this_cluster().sync();
    int64_t row = s.rows - 1 - blockIdx.x / how.blocks;
    if (threadIdx.x == 0)
        for (int i = 0; i < how.stages && row - i * clusters >= 0; ++i)
            fetch(fetched + i * how.slice, s.logits + (row - i * clusters) * s.stride + mine.first,
                  padded, &arrived[i]);
    int target = row < 0 ? -1 : s.target[row];
    for (int n = 0, stage = 0, turn = 0; row >= 0; ++n, row -= clusters) {
        float x[HELD][RUN], *numbers = fetched + stage * how.slice, of_target = 0;
        int next = row < clusters ? -1 : s.target[row - clusters];
        if (target >= s.vocab) {
            if (threadIdx.x == 0) hil_fault_report(fault, target, s.vocab);
            target = -1;
        }
        bool here = target >= mine.first && target < mine.first + mine.count;
        await(&arrived[stage], turn);
        hold(x, numbers, target < 0 ? 0 : mine.count);
        if (here) of_target = numbers[target - mine.first];
        __syncthreads();
        if (threadIdx.x == 0) {
            expect(&told[n % 2], how.blocks * warps * (int)sizeof(total));
            if (row >= how.stages * clusters)
                fetch(numbers, s.logits + (row - how.stages * clusters) * s.stride + mine.first,
                      padded, &arrived[stage]);
        }
        total own = hold_exp(x), of_warp = warp_total(own);
        if (lane < how.blocks) send(&part[n % 2][rank * warps + warp], &told[n % 2], of_warp, lane);
        await(&told[n % 2], n / 2);
        total all = merge(part[n % 2], how.blocks * warps);
        if (threadIdx.x == 0 && (here || (target < 0 && rank == 0)))
            s.loss[row] = here ? loss_of(all, of_target) : 0;
        float factor = s.loss_scale / all.sum * power_of_2(own.most - base_of(all.most));
        if (s.differentiate)
            store({s.logits + row * s.stride, s.compute}, mine, x, target < 0 ? 0 : factor, target,
                  s.loss_scale);
        target = next;
        if (++stage == how.stages) stage = 0, ++turn;
    }
}
#else
static __global__ void finish_shared_rows(const hil_softmax, const sharing, hil_cuda_fault *)
{
}
#endif

/* The fewest blocks that hold a row, so that few wait for one another; none: it cannot be held. */
static sharing share(const hil_device *device, int64_t vocab)
{
    int major = 0, bytes = 0, index = hil_cuda_of(device)->index;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
    for (int blocks = 1; major >= 9 && blocks <= CLUSTER; blocks *= 2) {
        int64_t size = (vocab + blocks * HIL_LOGIT_UNIT - 1) / (blocks * HIL_LOGIT_UNIT);
        size *= HIL_LOGIT_UNIT;
        int64_t threads = (size + HELD * RUN * LANES - 1) / (HELD * RUN * LANES) * LANES;
        int64_t stages = size ? (bytes - OWN_BYTES) / (int64_t)sizeof(float) / size : 0;
        if (stages <= 0 || threads > (blocks < CLUSTER ? THREADS / 2 : THREADS)) continue;
        return {blocks, (int)threads, (int)size, (int)(stages < STAGES ? stages : STAGES)};
    }
    return {};
}

/* As many clusters as run at once; one that came later would double the time. */
static hil_status launch_shared(const hil_device *device, const hil_softmax &s, const sharing &how)
{
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension};
    cluster.val.clusterDim = {(unsigned)how.blocks, 1, 1};
    size_t bytes = (size_t)(how.stages * how.slice) * sizeof(float);
    cudaLaunchConfig_t config = {.gridDim = dim3((unsigned)how.blocks),
                                 .blockDim = dim3((unsigned)how.threads),
                                 .dynamicSmemBytes = bytes,
                                 .stream = hil_cuda_of(device)->stream,
                                 .attrs = &cluster,
                                 .numAttrs = 1};
    int clusters = 0;
    cudaError_t bad = cudaFuncSetAttribute(finish_shared_rows,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (!bad) bad = cudaOccupancyMaxActiveClusters(&clusters, finish_shared_rows, &config);
    if (!bad) {
        config.gridDim.x *= (unsigned)(clusters < s.rows ? clusters : s.rows);
        bad = cudaLaunchKernelEx(&config, finish_shared_rows, s, how, hil_cuda_of(device)->fault);
    }
    return hil_cuda_check(device, bad, "head");
}

hil_status hil_cuda_softmax(hil_device *device, const hil_softmax *job)
{
    if (job->rows == 0) return HIL_OK;
    sharing how = share(device, job->vocab);
    if (how.blocks) return launch_shared(device, *job, how);
    finish_rows<<<(unsigned)job->rows, THREADS, 0, hil_cuda_of(device)->stream>>>(
        *job, hil_cuda_of(device)->fault);
    return hil_cuda_launched(device, "head");
}
