/* walk_cuda.h - strips of 64 columns of matrices of 16 bits, which a warp walks down, 16 rows at a
   time. A thread has four runs of eight numbers of each tile: rows g and g + 8, columns 8 t and 32
   + 8 t. The tiles that come next are on their way to shared memory meanwhile. */
#ifndef HIL_OPS_LINEAR_WALK_CUDA_H
#define HIL_OPS_LINEAR_WALK_CUDA_H

#include "ops/cuda_kernel.h"
#include "ops/linear/mma_cuda.h"

#define HIL_WALK_COLS 64    /* columns of a warp */
#define HIL_WALK_ROWS 16    /* of a tile */
#define HIL_WALK_PRODUCTS 8 /* of a tile with a matrix of 16 numbers for each column */
#define HIL_WALK_RUNS 4     /* of a thread in a tile */

/* The place of a thread: row g and numbers 2 t of a fragment, and the warp's first column. */
typedef struct hil_walk {
    int g, t;
    int64_t col, n; /* n: columns of the matrices */
} hil_walk;

static __device__ inline hil_walk hil_walk_of(int warps, int64_t n)
{
    int lane = (int)threadIdx.x % 32;
    return {lane / 4, lane % 4, ((int64_t)blockIdx.x * warps + threadIdx.x / 32) * HIL_WALK_COLS,
            n};
}

static __device__ inline bool hil_walk_is_on(const hil_walk &p)
{
    return p.col < p.n;
}

/* Where run i of the tile at `row` begins. */
static __device__ inline int64_t hil_walk_run(const hil_walk &p, int64_t row, int i)
{
    return (row + p.g + 8 * (i / 2)) * p.n + p.col + 32 * (i % 2) + 8 * p.t;
}

/* Starts to fetch a tile, whole lines at a time; `ring` is [HIL_WALK_RUNS][threads of the block].
   Zeros if the matrix is not `on` or the warp has no columns; `from` must be an address even so.
   The warp has read what the ring held. */
static __device__ inline void hil_walk_fetch(const hil_walk &p, int64_t row, const uint16_t *from,
                                             bool on, uint4 *ring)
{
#if __CUDA_ARCH__ >= 800
    int bytes = on && hil_walk_is_on(p) ? 16 : 0, lane = (int)threadIdx.x % 32;
    if (bytes) from += (row + lane / 8) * p.n + p.col + lane % 8 * 8;
    ring += lane % 8 / 4 * blockDim.x + threadIdx.x - lane + lane / 8 * 4 + lane % 4;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < HIL_WALK_RUNS; ++i) {
        uint4 *to = ring + i / 2 * 2 * blockDim.x + i % 2 * 16; /* of rows 4 i + lane / 8 */
        const uint16_t *at = bytes ? from + 4 * i * p.n : from;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         (uint32_t)__cvta_generic_to_shared(to)),
                     "l"(at), "r"(bytes)
                     : "memory");
    }
#endif
}

/* What was fetched since the last call is one group. */
static __device__ inline void hil_walk_commit(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most LEFT groups of this thread are on their way. */
template <int LEFT> static __device__ inline void hil_walk_wait(void)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
    __syncwarp();
#endif
}

/* The tile of a ring that has arrived. */
static __device__ inline void hil_walk_read(const uint4 *ring, uint32_t out[HIL_WALK_RUNS][4])
{
#pragma unroll
    for (int i = 0; i < HIL_WALK_RUNS; ++i) {
        uint4 run = ring[i * blockDim.x + threadIdx.x];
        out[i][0] = run.x, out[i][1] = run.y, out[i][2] = run.z, out[i][3] = run.w;
    }
}

static __device__ inline void hil_walk_store(const hil_walk &p, int64_t row, uint16_t *to,
                                             const uint32_t from[HIL_WALK_RUNS][4])
{
    if (!hil_walk_is_on(p)) return;
#pragma unroll
    for (int i = 0; i < HIL_WALK_RUNS; ++i)
        *(uint4 *)(to + hil_walk_run(p, row, i)) =
            make_uint4(from[i][0], from[i][1], from[i][2], from[i][3]);
}

/* Two words of bf16, of rows g and g + 8. */
static __device__ inline void hil_walk_unpack(float c[4], uint32_t low, uint32_t high)
{
    c[0] = __uint_as_float(low << 16), c[1] = __uint_as_float(low & 0xffff0000u);
    c[2] = __uint_as_float(high << 16), c[3] = __uint_as_float(high & 0xffff0000u);
}

static __device__ inline uint32_t hil_walk_pack(float x, float y)
{
    __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
    return *(const uint32_t *)&two;
}

/* Rows of a matrix (rows x rank, up to 16) as first factor; zeros if `from` is NULL. */
static __device__ inline void hil_walk_factor(const uint16_t *from, int rank, const hil_walk &p,
                                              int64_t row, uint32_t out[4])
{
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int r = 2 * p.t + 8 * (i / 2);
        bool on = from && r < rank;
        out[i] = on ? *(const uint32_t *)(from + (row + p.g + 8 * (i % 2)) * rank + r) : 0;
    }
}

/* Numbers of a matrix (n x rank) as second factor of product s, of HIL_WALK_PRODUCTS: its column g
   is the one that makes the results of a thread word s % 4 of its run s / 4. */
static __device__ inline int64_t hil_walk_column(const hil_walk &p, int s)
{
    return p.col + 32 * (s / 4) + 8 * (p.g / 2) + 2 * (s % 4) + p.g % 2;
}

static __device__ inline uint32_t hil_walk_pair(const uint16_t *from, int rank, const hil_walk &p,
                                                int s, int high)
{
    int r = 2 * p.t + 8 * high;
    if (!hil_walk_is_on(p) || r >= rank) return 0;
    return *(const uint32_t *)(from + hil_walk_column(p, s) * rank + r);
}

/* sum (rows g and g + 8, 16 numbers) += tile * weight: the tile as it is, is the first factor, with
   columns in another order, which that of the weight's fragments follows. */
static __device__ inline void hil_walk_multiply(const uint32_t tile[HIL_WALK_RUNS][4],
                                                const uint32_t weight[4][2][2], float sum[2][4])
{
#pragma unroll
    for (int s = 0; s < 4; ++s) {
        int run = s / 2, word = 2 * (s % 2);
        uint32_t a[4] = {tile[run][word], tile[2 + run][word], tile[run][word + 1],
                         tile[2 + run][word + 1]};
        hil_mma(sum[0], a, weight[s][0][0], weight[s][0][1]);
        hil_mma(sum[1], a, weight[s][1][0], weight[s][1][1]);
    }
}

/* The first tile and the next of a block, up to row `end`. */
typedef struct hil_walk_rows {
    int64_t first, end;
} hil_walk_rows;

static __device__ inline hil_walk_rows hil_walk_rows_of(int64_t block_rows, int64_t rows)
{
    int64_t first = blockIdx.y * block_rows, end = first + block_rows;
    return {first, end < rows ? end : rows};
}

#endif
