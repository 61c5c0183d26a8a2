/* gelu_cuda.h - the formulas of GELU on a GPU, with erf or the tanh approximation. */
#ifndef HIL_OPS_ELEMENTS_GELU_CUDA_H
#define HIL_OPS_ELEMENTS_GELU_CUDA_H

#include "ops/cuda_elements.h"

#define HIL_GELU_C 1.5957691216057308f /* 2 sqrt(2 / pi) */
#define HIL_GELU_A 0.044715f

/* (1 + tanh(u)) / 2 as the logistic function of 2u. */
static __device__ inline float hil_gelu_gate(float x)
{
    return __fdividef(1.0f, 1.0f + __expf(-HIL_GELU_C * x * fmaf(HIL_GELU_A * x, x, 1.0f)));
}

static __device__ inline float hil_gelu_of(float v, bool tanh)
{
    return tanh ? v * hil_gelu_gate(v) : 0.5f * v * (1.0f + erff(v * 0.7071067811865476f));
}

static __device__ inline float hil_gelu_slope(float v, bool tanh)
{
    if (tanh) {
        float s = hil_gelu_gate(v);
        return s + v * s * (1.0f - s) * (HIL_GELU_C * (1.0f + 3.0f * HIL_GELU_A * v * v));
    }
    float density = 0.3989422804014327f * expf(-0.5f * v * v);
    return 0.5f * (1.0f + erff(v * 0.7071067811865476f)) + v * density;
}

static inline bool hil_gelu_uses_tanh(const hil_op_call *call)
{
    return ((const hil_gelu_attr *)call->attr)->tanh;
}

#endif
