/* gelu.cu - x times the normal distribution function of x, with erf or the tanh approximation. */
#include "ops/elements/gelu_cuda.h"

struct gelu_forward {
    bool tanh;
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = hil_gelu_of(x[0][i], tanh);
    }
};

struct gelu_backward {
    bool tanh;
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[1][i] * hil_gelu_slope(x[0][i], tanh);
    }
};

static hil_status forward(hil_op_call *call)
{
    return hil_elements_single_cuda(call, gelu_forward{hil_gelu_uses_tanh(call)});
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_single_back_cuda(call, gelu_backward{hil_gelu_uses_tanh(call)});
}

const hil_op_kernel hil_cuda_gelu = {.op = &hil_op_gelu, .forward = forward, .backward = backward};
