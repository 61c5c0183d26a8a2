/* choices_cuda.h - kernels over the rows of tokens and the places of their choices on a GPU. */
#ifndef HIL_OPS_MIXTURE_CHOICES_CUDA_H
#define HIL_OPS_MIXTURE_CHOICES_CUDA_H

#include "ops/cuda_kernel.h"

#define HIL_CHOICES_THREADS 256

/* A token's row is cut into runs of HIL_WIDE columns, one for each thread. */
typedef struct hil_choices_rows {
    int64_t rows, chosen, cols, runs;
    const int32_t *place;
} hil_choices_rows;

static inline hil_choices_rows hil_choices_rows_of(int64_t rows, int64_t chosen, int64_t cols,
                                                   const hil_tensor *place)
{
    return {rows, chosen, cols, (cols + HIL_WIDE - 1) / HIL_WIDE, (const int32_t *)place->data};
}

/* The row and the first column of this thread; false: it has none. */
static __device__ inline bool hil_choices_find(const hil_choices_rows &c, int64_t *row,
                                               int64_t *col)
{
    int64_t at = (int64_t)blockIdx.x * HIL_CHOICES_THREADS + threadIdx.x;
    *row = at / c.runs;
    *col = (at - *row * c.runs) * HIL_WIDE;
    return *row < c.rows;
}

static inline unsigned hil_choices_blocks(const hil_choices_rows &c)
{
    return hil_blocks(c.rows * c.runs, HIL_CHOICES_THREADS);
}

/* One number of x; 1 if x has no data. */
static __device__ inline float hil_choices_read(hil_view x, int64_t at)
{
    if (!x.data) return 1;
    float out[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, at, 1), x.dtype, out);
    return out[0];
}

/* out = the sum of weight * y of a token's choices, in their order, plus more, rounded once.
   Weights without data are 1; `more` may have none. */
static __global__ void __launch_bounds__(HIL_CHOICES_THREADS)
    hil_choices_sum(const hil_choices_rows c, const hil_view y, const hil_view weight,
                    const hil_view more, const hil_view out)
{
    int64_t row, col;
    if (!hil_choices_find(c, &row, &col)) return;
    int n = hil_wide_count(c.cols - col);
    float sum[HIL_WIDE] = {}, values[HIL_WIDE];
#pragma unroll 4
    for (int64_t j = 0; j < c.chosen; ++j) {
        float factor = hil_choices_read(weight, row * c.chosen + j);
        int64_t at = c.place[row * c.chosen + j] * c.cols + col;
        hil_wide_read(hil_wide_load(y, at, n), y.dtype, values);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum[i] += factor * values[i];
    }
    if (more.data) {
        hil_wide_read(hil_wide_load(more, row * c.cols + col, n), more.dtype, values);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) sum[i] += values[i];
    }
    hil_wide_store(out, row * c.cols + col, n, sum);
}

#endif
