/* cuda_columns.h - sums of the columns of a matrix on a GPU: gradients of biases and magnitudes. */
#ifndef HIL_OPS_CUDA_COLUMNS_H
#define HIL_OPS_CUDA_COLUMNS_H

#include "ops/cuda_kernel.h"

#define HIL_COLUMN_LANES 32
#define HIL_COLUMN_WARPS 8
#define HIL_COLUMN_SPAN (HIL_COLUMN_LANES * HIL_WIDE) /* columns of a thread block */
#define HIL_COLUMN_ROWS 64                            /* of a block at least */
#define HIL_COLUMN_BLOCKS 128 /* at most: bounds the memory of partial sums */
static_assert(HIL_COLUMN_SPAN == HIL_COLUMN_LANES * HIL_COLUMN_WARPS, "a thread writes one column");

/* How rows are cut into blocks; depends on their number only. */
typedef struct hil_columns {
    int64_t rows, cols, block_rows, blocks;
} hil_columns;

static inline hil_columns hil_columns_of(int64_t rows, int64_t cols)
{
    int64_t each = (rows + HIL_COLUMN_BLOCKS - 1) / HIL_COLUMN_BLOCKS;
    if (each < HIL_COLUMN_ROWS) each = HIL_COLUMN_ROWS;
    return {rows, cols, each, (rows + each - 1) / each};
}

/* partial[block] = the sum of the block's rows of x; with PRODUCT, of x * y / divisor. Each warp
   takes every HIL_COLUMN_WARPS-th row, then warps are added in order. */
template <bool PRODUCT>
static __global__ void __launch_bounds__(HIL_COLUMN_LANES *HIL_COLUMN_WARPS)
    hil_column_sums(float *partial, const hil_view x, const hil_view y, const float *divisor,
                    const hil_columns s)
{
    __shared__ float shared[HIL_COLUMN_WARPS][HIL_COLUMN_SPAN];
    int lane = threadIdx.x % HIL_COLUMN_LANES, warp = threadIdx.x / HIL_COLUMN_LANES;
    int64_t col = (int64_t)blockIdx.x * HIL_COLUMN_SPAN + lane * HIL_WIDE;
    int64_t first = (int64_t)blockIdx.y * s.block_rows, end = first + s.block_rows;
    if (end > s.rows) end = s.rows;
    int n = hil_wide_count(s.cols - col);
    float sum[HIL_WIDE] = {};
#pragma unroll 4
    for (int64_t r = first + warp; r < end; r += HIL_COLUMN_WARPS) {
        float a[HIL_WIDE], b[HIL_WIDE];
        hil_wide_read(hil_wide_load(x, r * s.cols + col, n), x.dtype, a);
        if (PRODUCT) hil_wide_read(hil_wide_load(y, r * s.cols + col, n), y.dtype, b);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum[i] += PRODUCT ? a[i] * b[i] : a[i];
    }
#pragma unroll
    for (int i = 0; i < HIL_WIDE; ++i) shared[warp][lane * HIL_WIDE + i] = sum[i];
    __syncthreads();
    int64_t mine = (int64_t)blockIdx.x * HIL_COLUMN_SPAN + threadIdx.x;
    if (mine >= s.cols) return;
    float total = 0;
    for (int w = 0; w < HIL_COLUMN_WARPS; ++w) total += shared[w][threadIdx.x];
    partial[blockIdx.y * s.cols + mine] = PRODUCT ? total / divisor[mine] : total;
}

/* What is added up; see hil_column_sums. */
typedef struct hil_column_terms {
    const char *name; /* of the kernel, for errors */
    hil_view x, y;
    const float *divisor;
} hil_column_terms;

/* Runs that for a matrix that is not empty. */
template <bool PRODUCT>
static inline hil_status hil_columns_run(const hil_device *device, float *partial,
                                         const hil_column_terms &t, const hil_columns &s)
{
    if (s.rows * s.cols == 0) return HIL_OK;
    dim3 grid(hil_blocks(s.cols, HIL_COLUMN_SPAN), (unsigned)s.blocks);
    hil_column_sums<PRODUCT>
        <<<grid, HIL_COLUMN_LANES * HIL_COLUMN_WARPS, 0,
           hil_cuda_stream(device, HIL_STREAM_COMPUTE)>>>(partial, t.x, t.y, t.divisor, s);
    return hil_cuda_launched(device, t.name);
}

/* Adds the blocks' sums to the gradient of vector parameter `param`. */
static inline hil_status hil_columns_give(const hil_op_call *call, int param, const float *partial,
                                          const hil_columns &s)
{
    float *sum;
    bool add;
    HIL_TRY(call->source->gradient_begin(call->owner, param, 0, &sum, &add));
    hil_status status = hil_op_cuda_gather(call->device, {sum, partial, s.blocks, s.cols, add});
    call->source->gradient_end(call->owner, param, 0);
    return status;
}

#endif
