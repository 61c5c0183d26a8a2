/* geglu.cu - gelu(gate) * up, with erf or the tanh approximation. */
#include "ops/elements/gelu_cuda.h"

struct geglu_forward {
    bool tanh;
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = hil_gelu_of(x[0][i], tanh) * x[1][i];
    }
};

/* x: gate, up, dy; y: the gradients of gate and up. */
struct geglu_backward {
    bool tanh;
    __device__ void operator()(int64_t, const float x[3][HIL_WIDE], float y[2][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            y[0][i] = x[2][i] * x[1][i] * hil_gelu_slope(x[0][i], tanh);
            y[1][i] = x[2][i] * hil_gelu_of(x[0][i], tanh);
        }
    }
};

static hil_status forward(hil_op_call *call)
{
    return hil_elements_pair_cuda(call, geglu_forward{hil_gelu_uses_tanh(call)});
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_pair_back_cuda(call, geglu_backward{hil_gelu_uses_tanh(call)});
}

const hil_op_kernel hil_cuda_geglu = {
    .op = &hil_op_geglu, .forward = forward, .backward = backward};
