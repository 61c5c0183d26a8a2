/* multiply.cu - x times y, element by element. */
#include "ops/cuda_elements.h"

struct multiply_forward {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] * x[1][i];
    }
};

struct multiply_backward {
    __device__ void operator()(int64_t, const float x[3][HIL_WIDE], float y[2][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            y[0][i] = x[1][i] * x[2][i];
            y[1][i] = x[0][i] * x[2][i];
        }
    }
};

static hil_status forward(hil_op_call *call)
{
    return hil_elements_pair_cuda(call, multiply_forward());
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_pair_back_cuda(call, multiply_backward());
}

const hil_op_kernel hil_cuda_multiply = {
    .op = &hil_op_multiply, .forward = forward, .backward = backward};
