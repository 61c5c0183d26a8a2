/* sigmoid_gate.cu - each row of x times the sigmoid of one number, or of as many; or their
 * softplus.
 */
#include "ops/cuda_elements.h"

#include <string.h>

#define THREADS 256
#define WARPS (THREADS / 32)

/* What x is multiplied by, and its derivative by the gate. */
typedef struct opening {
    float factor, slope;
} opening;
template <bool SOFTPLUS> static __device__ inline opening open_by(float x)
{
    float s = 1 / (1 + expf(-x));
    if (SOFTPLUS) return {x > 20 ? x : log1pf(expf(x)), s};
    return {s, s * (1 - s)};
}

/* out = factor * from. If dgate has data, it gets the slope times x . from first. */
typedef struct job {
    int64_t rows, cols;
    hil_view gate, from, out, x, dgate;
    bool add, add_gate;
} job;

static __device__ inline float find_dot(const job &j, int64_t row)
{
    float dot = 0;
    for (int64_t col = threadIdx.x % 32 * HIL_WIDE; col < j.cols; col += 32 * HIL_WIDE) {
        int n = hil_wide_count(j.cols - col);
        float x[HIL_WIDE], dy[HIL_WIDE];
        hil_wide_read(hil_wide_load(j.x, row * j.cols + col, n), j.x.dtype, x);
        hil_wide_read(hil_wide_load(j.from, row * j.cols + col, n), j.from.dtype, dy);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) dot += x[i] * dy[i];
    }
    for (int step = 16; step; step /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, step);
    return dot;
}

/* A warp per row. `out` may be `from`. */
template <bool SOFTPLUS> static __global__ void __launch_bounds__(THREADS) scale_rows(const job j)
{
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= j.rows) return;
    float one[HIL_WIDE];
    hil_wide_read(hil_wide_load(j.gate, row, 1), j.gate.dtype, one);
    opening by = open_by<SOFTPLUS>(one[0]);
    if (j.dgate.data) {
        one[0] = find_dot(j, row) * by.slope;
        if (threadIdx.x % 32 == 0) hil_wide_write(j.dgate, row, 1, one, j.add_gate);
    }
    for (int64_t col = threadIdx.x % 32 * HIL_WIDE; col < j.cols && j.out.data;
         col += 32 * HIL_WIDE) {
        int n = hil_wide_count(j.cols - col);
        float x[HIL_WIDE];
        hil_wide_read(hil_wide_load(j.from, row * j.cols + col, n), j.from.dtype, x);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) x[i] *= by.factor;
        hil_wide_write(j.out, row * j.cols + col, n, x, j.add);
    }
}

static bool is_softplus(const hil_op_call *call)
{
    return strcmp(call->op->name, hil_op_softplus_gate.name) == 0;
}

static hil_status run(const hil_op_call *call, const job &j)
{
    if (j.rows == 0) return HIL_OK;
    auto kernel = is_softplus(call) ? scale_rows<true> : scale_rows<false>;
    kernel<<<hil_blocks(j.rows, WARPS), THREADS, 0,
             hil_cuda_stream(call->device, HIL_STREAM_COMPUTE)>>>(j);
    return hil_cuda_launched(call->device, call->op->name);
}

struct softplus_forward {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] * open_by<true>(x[1][i]).factor;
    }
};

struct softplus_backward {
    __device__ void operator()(int64_t, const float x[3][HIL_WIDE], float y[2][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            opening by = open_by<true>(x[1][i]);
            y[0][i] = x[2][i] * by.factor;
            y[1][i] = x[2][i] * x[0][i] * by.slope;
        }
    }
};

struct gate_forward {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] / (1 + expf(-x[1][i]));
    }
};

struct gate_backward {
    __device__ void operator()(int64_t, const float x[3][HIL_WIDE], float y[2][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            float gate = 1 / (1 + expf(-x[1][i]));
            y[0][i] = x[2][i] * gate;
            y[1][i] = x[2][i] * x[0][i] * gate * (1 - gate);
        }
    }
};

static bool has_many(const hil_op_call *call)
{
    return hil_shape_cols(&call->in[1].shape) != 1;
}

static hil_status forward(hil_op_call *call)
{
    if (has_many(call) && is_softplus(call))
        return hil_elements_pair_cuda(call, softplus_forward());
    if (has_many(call)) return hil_elements_pair_cuda(call, gate_forward());
    const hil_shape *shape = &call->in[0].shape;
    return run(call, {hil_shape_rows(shape), hil_shape_cols(shape), hil_view_of(&call->in[1]),
                      hil_view_of(&call->in[0]), hil_view_of(&call->out[0])});
}

static hil_status backward(hil_op_call *call)
{
    if (has_many(call) && is_softplus(call))
        return hil_elements_pair_back_cuda(call, softplus_backward());
    if (has_many(call)) return hil_elements_pair_back_cuda(call, gate_backward());
    const hil_shape *shape = &call->in[0].shape;
    return run(call,
               {hil_shape_rows(shape), hil_shape_cols(shape), hil_view_of(&call->in[1]),
                hil_view_of(&call->dout[0]), hil_view_of(&call->din[0]), hil_view_of(&call->in[0]),
                hil_view_of(&call->din[1]), call->din_add[0], call->din_add[1]});
}

const hil_op_kernel hil_cuda_sigmoid_gate = {
    .op = &hil_op_sigmoid_gate, .forward = forward, .backward = backward};
const hil_op_kernel hil_cuda_softplus_gate = {
    .op = &hil_op_softplus_gate, .forward = forward, .backward = backward};
