/* dispatch.cu - copies the row of each token to the places of its choices. */
#include "ops/mixture/choices_cuda.h"

static hil_choices_rows measure(const hil_op_call *call)
{
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    int64_t places = hil_shape_count(&call->in[1].shape);
    return hil_choices_rows_of(rows, rows ? places / rows : 0, hil_shape_cols(&call->in[0].shape),
                               &call->in[1]);
}

static __global__ void __launch_bounds__(HIL_CHOICES_THREADS)
    copy_rows(const hil_choices_rows c, const hil_view x, const hil_view y)
{
    int64_t row, col;
    if (!hil_choices_find(c, &row, &col)) return;
    int n = hil_wide_count(c.cols - col);
    float values[HIL_WIDE];
    hil_wide_read(hil_wide_load(x, row * c.cols + col, n), x.dtype, values);
#pragma unroll 4
    for (int64_t j = 0; j < c.chosen; ++j)
        hil_wide_store(y, c.place[row * c.chosen + j] * c.cols + col, n, values);
}

static hil_status forward(hil_op_call *call)
{
    hil_choices_rows c = measure(call);
    if (c.rows * c.runs == 0) return HIL_OK;
    copy_rows<<<hil_choices_blocks(c), HIL_CHOICES_THREADS, 0,
                hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(c, hil_view_of(&call->in[0]),
                                                                     hil_view_of(&call->out[0]));
    return hil_cuda_launched(call->device, "dispatch");
}

/* The gradients of a token's copies are added in the order of its choices, and rounded once. */
static hil_status backward(hil_op_call *call)
{
    hil_choices_rows c = measure(call);
    if (!call->din[0].data || c.rows * c.runs == 0) return HIL_OK;
    hil_view none = {}, dx = hil_view_of(&call->din[0]);
    hil_choices_sum<<<hil_choices_blocks(c), HIL_CHOICES_THREADS, 0,
                      hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        c, hil_view_of(&call->dout[0]), none, call->din_add[0] ? dx : none, dx);
    return hil_cuda_launched(call->device, "dispatch backward");
}

const hil_op_kernel hil_cuda_dispatch = {
    .op = &hil_op_dispatch, .forward = forward, .backward = backward};
