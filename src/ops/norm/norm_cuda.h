/* norm_cuda.h - the rows of a norm on a GPU, and the kernels for rows of bf16. */
#ifndef HIL_OPS_NORM_NORM_CUDA_H
#define HIL_OPS_NORM_NORM_CUDA_H

#include "ops/cuda_kernel.h"

#define HIL_NORM_THREADS 256          /* of a block with several rows */
#define HIL_NORM_MOST 1024            /* threads of a block */
#define HIL_NORM_WARP (32 * HIL_WIDE) /* numbers of a row of one run in every lane of a warp */

typedef struct hil_norm_job {
    int64_t rows, cols;
    int64_t heads; /* rows of weights: row r has those of head r % heads */
    float eps;
    hil_view x, y; /* y: the output */
    hil_view weight, bias;
    float *saved; /* (rows, mean and 1/deviation) or (rows, 1/deviation) */
    hil_view dy, dx;
    bool add;
    int64_t block_rows;     /* of one head and of a block in backward */
    float *dweight, *dbias; /* (blocks, heads, cols); NULL where not wanted */
} hil_norm_job;

/* The threads of a row, and the rows that a block has at once. */
typedef struct hil_norm_team {
    int threads, rows;
} hil_norm_team;

static inline hil_norm_team hil_norm_team_of(int64_t cols)
{
    int64_t runs = (cols + HIL_WIDE - 1) / HIL_WIDE;
    if (runs <= 32) {
        int threads = 1;
        while (threads < runs) threads *= 2;
        return {threads, HIL_NORM_THREADS / threads};
    }
    int64_t threads = (runs + 31) / 32 * 32;
    return {(int)(threads < HIL_NORM_MOST ? threads : HIL_NORM_MOST), 1};
}

/* The sum of x over the threads of a row; every one of them gets it. Callers alternate between two
   places in shared memory, so that one barrier is enough. */
static __device__ inline float hil_norm_row_sum(float x, int threads, float shared[32])
{
    int width = threads < 32 ? threads : 32;
    for (int step = width / 2; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    if (threads <= 32) return x;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < threads / 32; ++i) sum += shared[i];
    return sum;
}

/* Launch kernels for long rows of bf16 with the same weights; false: these rows need the general
   one. */
bool hil_norm_bf16_forward(const hil_norm_job &j, bool centered, cudaStream_t stream);
bool hil_norm_bf16_backward(const hil_norm_job &j, bool centered, cudaStream_t stream);

#endif
