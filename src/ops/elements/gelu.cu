/* gelu.cu - x times the normal distribution function of x, with erf or the tanh approximation. */
#include "ops/cuda_elements.h"

#define GELU_C 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define GELU_A 0.044715f

/* (1 + tanh(u)) / 2 as the logistic function of 2u. */
static __device__ inline float gate(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-GELU_C * x * fmaf(GELU_A * x, x, 1.0f)));
}

struct forward_formula {
    bool tanh;
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            float v = x[0][i];
            y[0][i] = tanh ? v * gate(v) : 0.5f * v * (1.0f + erff(v * 0.7071067811865476f));
        }
    }
};

struct backward_formula {
    bool tanh;
    __device__ float slope(float v) const
    {
        if (tanh) {
            float s = gate(v);
            return s + v * s * (1.0f - s) * (GELU_C * (1.0f + 3.0f * GELU_A * v * v));
        }
        float density = 0.3989422804014327f * expf(-0.5f * v * v);
        return 0.5f * (1.0f + erff(v * 0.7071067811865476f)) + v * density;
    }
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[1][i] * slope(x[0][i]);
    }
};

static bool uses_tanh(const hil_op_call *call)
{
    return ((const hil_gelu_attr *)call->attr)->tanh;
}

static hil_status forward(hil_op_call *call)
{
    hil_cuda_elements<1, 1> job = {.count = hil_shape_count(&call->in[0].shape),
                                   .in = {hil_view_of(&call->in[0])},
                                   .out = {hil_view_of(&call->out[0])},
                                   .add = {false}};
    return hil_elements_run_cuda(call->device, "gelu", job, forward_formula{uses_tanh(call)});
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    hil_cuda_elements<2, 1> job = {.count = hil_shape_count(&call->in[0].shape),
                                   .in = {hil_view_of(&call->in[0]), hil_view_of(&call->dout[0])},
                                   .out = {hil_view_of(&call->din[0])},
                                   .add = {call->din_add[0]}};
    return hil_elements_run_cuda(call->device, "gelu backward", job,
                                 backward_formula{uses_tanh(call)});
}

const hil_op_kernel hil_cuda_gelu = {.op = &hil_op_gelu, .forward = forward, .backward = backward};
