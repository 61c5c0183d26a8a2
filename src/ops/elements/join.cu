/* join.cu - puts columns of several tensors side by side: one copy for each of them. */
#include "ops/cuda_kernel.h"

#define THREADS 256

/* The columns [first, first + size) of rows of `cols` numbers, and the tensor that has them. */
typedef struct joining {
    int64_t rows, heads, cols, first, size;
    hil_view whole, part;
    bool shared; /* the part has one row for all heads */
    bool add;
} joining;

/* A thread takes HIL_WIDE numbers of one row. Without data of the part they are zeros. */
static __global__ void __launch_bounds__(THREADS) copy_in(const joining j)
{
    int64_t runs = (j.size + HIL_WIDE - 1) / HIL_WIDE;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= j.rows * runs) return;
    int64_t row = i / runs, col = i % runs * HIL_WIDE, from = j.shared ? row / j.heads : row;
    int n = hil_wide_count(j.size - col);
    float x[HIL_WIDE] = {};
    if (j.part.data) hil_wide_read(hil_wide_load(j.part, from * j.size + col, n), j.part.dtype, x);
    hil_wide_store(j.whole, row * j.cols + j.first + col, n, x);
}

/* The same for a row of the part's gradient: the sum over the heads that have it. */
static __global__ void __launch_bounds__(THREADS) copy_out(const joining j)
{
    int64_t runs = (j.size + HIL_WIDE - 1) / HIL_WIDE;
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t heads = j.shared ? j.heads : 1;
    if (i >= j.rows / heads * runs) return;
    int64_t row = i / runs, col = i % runs * HIL_WIDE;
    int n = hil_wide_count(j.size - col);
    float sum[HIL_WIDE] = {};
    for (int64_t h = 0; h < heads; ++h) {
        float x[HIL_WIDE];
        int64_t at = (row * heads + h) * j.cols + j.first + col;
        hil_wide_read(hil_wide_load(j.whole, at, n), j.whole.dtype, x);
#pragma unroll
        for (int k = 0; k < HIL_WIDE; ++k) sum[k] += x[k];
    }
    hil_wide_write(j.part, row * j.size + col, n, sum, j.add);
}

static joining describe(const hil_op_call *call, const hil_tensor *whole)
{
    const hil_shape *out = &call->out[0].shape;
    return {.rows = hil_shape_rows(out),
            .heads = out->ndim > 1 ? out->dim[out->ndim - 2] : 1,
            .cols = hil_shape_cols(out),
            .whole = hil_view_of(whole)};
}

static void set_part(const hil_op_call *call, int i, joining *j)
{
    j->size = hil_shape_cols(&call->in[i].shape);
    j->shared = hil_shape_rows(&call->in[i].shape) != j->rows;
}

static hil_status launch(const hil_op_call *call, void (*kernel)(joining), const joining &j)
{
    int64_t count = j.rows * ((j.size + HIL_WIDE - 1) / HIL_WIDE);
    if (count == 0) return HIL_OK;
    kernel<<<hil_blocks(count, THREADS), THREADS, 0, hil_cuda_of(call->device)->stream>>>(j);
    return hil_cuda_launched(call->device, "join");
}

static hil_status forward(hil_op_call *call)
{
    joining j = describe(call, &call->out[0]);
    for (int i = 0; i < call->ins; ++i, j.first += j.size) {
        set_part(call, i, &j);
        j.part = hil_view_of(&call->in[i]);
        HIL_TRY(launch(call, copy_in, j));
    }
    j.size = j.cols - j.first, j.shared = false, j.part.data = NULL;
    return launch(call, copy_in, j);
}

static hil_status backward(hil_op_call *call)
{
    joining j = describe(call, &call->dout[0]);
    for (int i = 0; i < call->ins; ++i, j.first += j.size) {
        set_part(call, i, &j);
        j.part = hil_view_of(&call->din[i]);
        j.add = call->din_add[i];
        if (j.part.data) HIL_TRY(launch(call, copy_out, j));
    }
    return HIL_OK;
}

const hil_op_kernel hil_cuda_join = {.op = &hil_op_join, .forward = forward, .backward = backward};
