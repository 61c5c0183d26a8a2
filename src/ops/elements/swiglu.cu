/* swiglu.cu - silu(gate) * up. */
#include "ops/cuda_elements.h"
#include "ops/elements/swiglu_cuda.h"

static __device__ inline float logistic(float x)
{
    return __fdividef(1.0f, 1.0f + expf(-x));
}

struct swiglu_forward {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            y[0][i] = hil_swiglu_forward(x[0][i], logistic(x[0][i]), x[1][i]);
    }
};

/* x: gate, up, dy; y: the gradients of gate and up. */
struct swiglu_backward {
    __device__ void operator()(int64_t, const float x[3][HIL_WIDE], float y[2][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i)
            hil_swiglu_backward(x[0][i], logistic(x[0][i]), x[1][i], x[2][i], &y[0][i], &y[1][i]);
    }
};

static hil_status forward(hil_op_call *call)
{
    return hil_elements_pair_cuda(call, swiglu_forward());
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_pair_back_cuda(call, swiglu_backward());
}

const hil_op_kernel hil_cuda_swiglu = {
    .op = &hil_op_swiglu, .forward = forward, .backward = backward};
