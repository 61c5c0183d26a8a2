/* swiglu_clamped.cu - gated units of gpt-oss: g sigmoid(alpha g) (u + 1), with g and u bounded. */
#include "ops/cuda_elements.h"

/* What forward and backward share of one element. */
struct bounded_unit {
    float gate, up, open; /* bounded, and sigmoid(alpha gate) */
};

struct clamping {
    float alpha, limit;

    __device__ bounded_unit bound(float gate, float up) const
    {
        float g = fminf(gate, limit), u = fmaxf(fminf(up, limit), -limit);
        return {g, u, 1 / (1 + expf(-alpha * g))};
    }
};

struct swiglu_clamped_forward : clamping {
    __device__ void operator()(int64_t, const float x[2][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            bounded_unit b = bound(x[0][i], x[1][i]);
            y[0][i] = (b.up + 1) * (b.gate * b.open);
        }
    }
};

/* x: gate, up, dy; y: the gradients of gate and up. A number that was clamped has no gradient. */
struct swiglu_clamped_backward : clamping {
    __device__ void operator()(int64_t, const float x[3][HIL_WIDE], float y[2][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) {
            bounded_unit b = bound(x[0][i], x[1][i]);
            float slope = b.open + alpha * b.gate * b.open * (1 - b.open), dy = x[2][i];
            y[0][i] = x[0][i] <= limit ? dy * (b.up + 1) * slope : 0;
            y[1][i] = fabsf(x[1][i]) <= limit ? dy * b.gate * b.open : 0;
        }
    }
};

static clamping clamping_of(const hil_op_call *call)
{
    const hil_swiglu_clamped_attr *attr = (const hil_swiglu_clamped_attr *)call->attr;
    return {(float)attr->alpha, (float)attr->limit};
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_pair_cuda(call, swiglu_clamped_forward{clamping_of(call)});
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_pair_back_cuda(call, swiglu_clamped_backward{clamping_of(call)});
}

const hil_op_kernel hil_cuda_swiglu_clamped = {
    .op = &hil_op_swiglu_clamped, .forward = forward, .backward = backward};
