/* softcap.cu - cap * tanh(x / cap): bounds numbers smoothly. */
#include "ops/cuda_elements.h"

struct softcap_forward {
    float cap;
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = cap * tanhf(x[0][i] / cap);
    }
};

struct softcap_backward {
    float cap;
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            float part = tanhf(x[0][i] / cap);
            y[0][i] = x[1][i] * (1.0f - part * part);
        }
    }
};

static float cap_of(const hil_op_call *call)
{
    return (float)((const hil_softcap_attr *)call->attr)->cap;
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_single_cuda(call, softcap_forward{cap_of(call)});
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_single_back_cuda(call, softcap_backward{cap_of(call)});
}

const hil_op_kernel hil_cuda_softcap = {
    .op = &hil_op_softcap, .forward = forward, .backward = backward};
