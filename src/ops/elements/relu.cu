/* relu.cu - positive numbers, 0 for others. */
#include "ops/cuda_elements.h"

struct relu_forward {
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] < 0 ? 0 : x[0][i];
    }
};

struct relu_backward {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] > 0 ? x[1][i] : 0;
    }
};

static hil_status forward(hil_op_call *call)
{
    return hil_elements_single_cuda(call, relu_forward());
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_single_back_cuda(call, relu_backward());
}

const hil_op_kernel hil_cuda_relu = {.op = &hil_op_relu, .forward = forward, .backward = backward};
