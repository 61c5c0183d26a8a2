/* dispatch.cu - copies the row of each token to the places of its choices, or its products with
   their weights. */
#include "ops/mixture/choices_cuda.h"

static hil_choices_rows measure(const hil_op_call *call)
{
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    int64_t places = hil_shape_count(&call->in[1].shape);
    return hil_choices_rows_of(rows, rows ? places / rows : 0, hil_shape_cols(&call->in[0].shape),
                               &call->in[1]);
}

static __global__ void __launch_bounds__(HIL_CHOICES_THREADS)
    copy_rows(const hil_choices_rows c, const hil_view x, const hil_view weight, const hil_view y)
{
    int64_t row, col;
    if (!hil_choices_find(c, &row, &col)) return;
    int n = hil_wide_count(c.cols - col);
    float values[HIL_WIDE], scaled[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, row * c.cols + col, n), x.dtype, values);
#pragma unroll 4
    for (int64_t j = 0; j < c.chosen; ++j) {
        float factor = hil_choices_read(weight, row * c.chosen + j);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) scaled[i] = factor * values[i];
        hil_wide_store(y, c.place[row * c.chosen + j] * c.cols + col, n, scaled);
    }
}

/* No data: all are 1. */
static hil_view weights_of(const hil_op_call *call)
{
    hil_view none = {};
    return call->ins == 3 ? hil_view_of(&call->in[2]) : none;
}

static hil_status forward(hil_op_call *call)
{
    hil_choices_rows c = measure(call);
    if (c.rows * c.runs == 0) return HIL_OK;
    copy_rows<<<hil_choices_blocks(c), HIL_CHOICES_THREADS, 0,
                hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        c, hil_view_of(&call->in[0]), weights_of(call), hil_view_of(&call->out[0]));
    return hil_cuda_launched(call->device, "dispatch");
}

/* A warp per choice: the gradient of its weight is dy . x. */
static __global__ void __launch_bounds__(HIL_CHOICES_THREADS)
    back_weights(const hil_choices_rows c, const hil_view x, const hil_view dy,
                 const hil_view dweight, bool add)
{
    int64_t i = (int64_t)blockIdx.x * (HIL_CHOICES_THREADS / 32) + threadIdx.x / 32;
    if (i >= c.rows * c.chosen) return;
    int64_t from = i / c.chosen * c.cols, to = c.place[i] * c.cols;
    float dot[HIL_WIDE] = {}, a[HIL_WIDE], b[HIL_WIDE];
    for (int64_t col = threadIdx.x % 32 * HIL_WIDE; col < c.cols; col += 32 * HIL_WIDE) {
        int n = hil_wide_count(c.cols - col);
        hil_wide_read(hil_wide_load(x, from + col, n), x.dtype, a);
        hil_wide_read(hil_wide_load(dy, to + col, n), dy.dtype, b);
#pragma unroll
        for (int k = 0; k < HIL_WIDE; ++k) dot[0] += a[k] * b[k];
    }
    for (int step = 16; step; step /= 2) dot[0] += __shfl_xor_sync(0xffffffffu, dot[0], step);
    if (threadIdx.x % 32 == 0) hil_wide_write(dweight, i, 1, dot, add);
}

static hil_status backward_weights(hil_op_call *call, const hil_choices_rows &c)
{
    if (call->ins < 3 || !call->din[2].data || c.rows * c.chosen == 0) return HIL_OK;
    back_weights<<<hil_blocks(c.rows * c.chosen, HIL_CHOICES_THREADS / 32), HIL_CHOICES_THREADS, 0,
                   hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        c, hil_view_of(&call->in[0]), hil_view_of(&call->dout[0]), hil_view_of(&call->din[2]),
        call->din_add[2]);
    return hil_cuda_launched(call->device, "dispatch backward, weights");
}

/* The gradients of a token's copies are added in the order of its choices, and rounded once. */
static hil_status backward(hil_op_call *call)
{
    hil_choices_rows c = measure(call);
    HIL_TRY(backward_weights(call, c));
    if (!call->din[0].data || c.rows * c.runs == 0) return HIL_OK;
    hil_view none = {}, dx = hil_view_of(&call->din[0]);
    hil_choices_sum<<<hil_choices_blocks(c), HIL_CHOICES_THREADS, 0,
                      hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        c, hil_view_of(&call->dout[0]), weights_of(call), call->din_add[0] ? dx : none, dx);
    return hil_cuda_launched(call->device, "dispatch backward");
}

const hil_op_kernel hil_cuda_dispatch = {
    .op = &hil_op_dispatch, .forward = forward, .backward = backward};
