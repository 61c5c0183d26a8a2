/* combine.cu - the weighted sum of the results of each token's experts, added to a residual. */
#include "ops/mixture/choices_cuda.h"

static hil_choices_rows measure(const hil_op_call *call)
{
    return hil_choices_rows_of(hil_shape_rows(&call->in[1].shape),
                               hil_shape_cols(&call->in[1].shape),
                               hil_shape_cols(&call->in[0].shape), &call->in[2]);
}

/* No data: all are 1. */
static hil_view weights_of(const hil_op_call *call)
{
    hil_view none = {};
    return call->in[1].dtype == HIL_I32 ? none : hil_view_of(&call->in[1]);
}

static hil_status forward(hil_op_call *call)
{
    hil_choices_rows c = measure(call);
    if (c.rows * c.runs == 0) return HIL_OK;
    hil_view none = {};
    hil_choices_sum<<<hil_choices_blocks(c), HIL_CHOICES_THREADS, 0,
                      hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(
        c, hil_view_of(&call->in[0]), weights_of(call),
        call->ins == 4 ? hil_view_of(&call->in[3]) : none, hil_view_of(&call->out[0]));
    return hil_cuda_launched(call->device, "combine");
}

/* Gradients of the results and of the weights; one without data is not wanted. */
typedef struct gradients {
    hil_view y, weight, dout, dy, dweight;
    bool add_y, add_weight;
} gradients;

/* A warp per choice: the gradient of its result is weight * dout; that of its weight, dout .
 * result.
 */
static __global__ void __launch_bounds__(HIL_CHOICES_THREADS)
    back_choices(const hil_choices_rows c, const gradients g)
{
    int64_t i = (int64_t)blockIdx.x * (HIL_CHOICES_THREADS / 32) + threadIdx.x / 32;
    if (i >= c.rows * c.chosen) return;
    int64_t from = i / c.chosen * c.cols, to = c.place[i] * c.cols;
    float weight = hil_choices_read(g.weight, i), dot = 0;
#pragma unroll 4
    for (int64_t col = threadIdx.x % 32 * HIL_WIDE; col < c.cols; col += 32 * HIL_WIDE) {
        int n = hil_wide_count(c.cols - col);
        float dout[HIL_WIDE], y[HIL_WIDE];
        hil_wide_read(hil_wide_load(g.dout, from + col, n), g.dout.dtype, dout);
        if (g.dweight.data) {
            hil_wide_read(hil_wide_load(g.y, to + col, n), g.y.dtype, y);
#pragma unroll
            for (int k = 0; k < HIL_WIDE; ++k) dot += dout[k] * y[k];
        }
#pragma unroll
        for (int k = 0; k < HIL_WIDE; ++k) dout[k] *= weight;
        if (g.dy.data) hil_wide_write(g.dy, to + col, n, dout, g.add_y);
    }
    for (int step = 16; step; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
    float all[HIL_WIDE] = {dot};
    if (g.dweight.data && threadIdx.x % 32 == 0) hil_wide_write(g.dweight, i, 1, all, g.add_weight);
}

static hil_status backward(hil_op_call *call)
{
    hil_choices_rows c = measure(call);
    if (c.rows * c.runs == 0 || (!call->din[0].data && !call->din[1].data)) return HIL_OK;
    gradients g = {hil_view_of(&call->in[0]),
                   weights_of(call),
                   hil_view_of(&call->dout[0]),
                   hil_view_of(&call->din[0]),
                   hil_view_of(&call->din[1]),
                   call->din_add[0],
                   call->din_add[1]};
    back_choices<<<hil_blocks(c.rows * c.chosen, HIL_CHOICES_THREADS / 32), HIL_CHOICES_THREADS, 0,
                   hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(c, g);
    return hil_cuda_launched(call->device, "combine backward");
}

const hil_op_kernel hil_cuda_combine = {
    .op = &hil_op_combine, .forward = forward, .backward = backward};
