/* swiglu.cu - silu(gate) * up. */
#include "ops/cuda_elements.h"

static __device__ inline float logistic(float x)
{
    return __fdividef(1.0f, 1.0f + expf(-x));
}

struct forward_formula {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] * logistic(x[0][i]) * x[1][i];
    }
};

/* x: gate, up, dy; y: the gradients of gate and up. */
struct backward_formula {
    __device__ void operator()(int64_t, const float x[3][HIL_WIDE], float y[2][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            float g = x[0][i], u = x[1][i], d = x[2][i], s = logistic(g);
            y[0][i] = d * u * s * (1.0f + g * (1.0f - s));
            y[1][i] = d * g * s;
        }
    }
};

static hil_status forward(hil_op_call *call)
{
    hil_cuda_elements<2, 1> job = {.count = hil_shape_count(&call->in[0].shape),
                                   .in = {hil_view_of(&call->in[0]), hil_view_of(&call->in[1])},
                                   .out = {hil_view_of(&call->out[0])},
                                   .add = {false}};
    return hil_elements_run_cuda(call->device, "swiglu", job, forward_formula());
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data && !call->din[1].data) return HIL_OK;
    hil_cuda_elements<3, 2> job = {
        .count = hil_shape_count(&call->in[0].shape),
        .in = {hil_view_of(&call->in[0]), hil_view_of(&call->in[1]), hil_view_of(&call->dout[0])},
        .out = {hil_view_of(&call->din[0]), hil_view_of(&call->din[1])},
        .add = {call->din_add[0], call->din_add[1]}};
    return hil_elements_run_cuda(call->device, "swiglu backward", job, backward_formula());
}

const hil_op_kernel hil_cuda_swiglu = {
    .op = &hil_op_swiglu, .forward = forward, .backward = backward};
