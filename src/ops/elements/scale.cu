/* scale.cu - x times a number. */
#include "ops/cuda_elements.h"

struct scale_formula {
    float factor;
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] * factor;
    }
};

static hil_status apply(const hil_op_call *call, const hil_tensor *in, const hil_tensor *out,
                        bool add)
{
    const hil_scale_attr *attr = (const hil_scale_attr *)call->attr;
    hil_cuda_elements<1, 1> job = {.count = hil_shape_count(&in->shape),
                                   .in = {hil_view_of(in)},
                                   .out = {hil_view_of(out)},
                                   .add = {add}};
    return hil_elements_run_cuda(call->device, "scale", job, scale_formula{(float)attr->factor});
}

static hil_status forward(hil_op_call *call)
{
    return apply(call, &call->in[0], &call->out[0], false);
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    return apply(call, &call->dout[0], &call->din[0], call->din_add[0]);
}

const hil_op_kernel hil_cuda_scale = {
    .op = &hil_op_scale, .forward = forward, .backward = backward};
