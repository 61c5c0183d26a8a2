/* relu_squared.cu - the square of positive numbers, 0 for others. */
#include "ops/cuda_elements.h"

struct relu_squared_forward {
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] < 0 ? 0 : x[0][i] * x[0][i];
    }
};

struct relu_squared_backward {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] < 0 ? 0 : 2 * x[0][i] * x[1][i];
    }
};

static hil_status forward(hil_op_call *call)
{
    return hil_elements_single_cuda(call, relu_squared_forward());
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_single_back_cuda(call, relu_squared_backward());
}

const hil_op_kernel hil_cuda_relu_squared = {
    .op = &hil_op_relu_squared, .forward = forward, .backward = backward};
