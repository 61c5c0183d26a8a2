/* swiglu_cuda.h - silu(gate) * up of one number on a GPU; `s` is the logistic function of the gate.
 */
#ifndef HIL_OPS_ELEMENTS_SWIGLU_CUDA_H
#define HIL_OPS_ELEMENTS_SWIGLU_CUDA_H

static __device__ inline float hil_swiglu_forward(float gate, float s, float up)
{
    return gate * s * up;
}

static __device__ inline void hil_swiglu_backward(float gate, float s, float up, float dy,
                                                  float *dgate, float *dup)
{
    *dgate = dy * up * s * (1.0f + gate * (1.0f - s));
    *dup = dy * gate * s;
}

#endif
