/* scale.cu - x times a number, and times another that is a parameter. */
#include "ops/cuda_elements.h"

struct scale_formula {
    float factor;
    hil_view more; /* one more factor; without data: none */
    __device__ void operator()(int64_t, const float x[1][HIL_WIDE], float y[1][HIL_WIDE]) const
    {
        float all = factor, other[HIL_WIDE];
        if (more.data) {
            hil_wide_read(hil_wide_load(more, 0, 1), more.dtype, other);
            all *= other[0];
        }
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) y[0][i] = x[0][i] * all;
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
    scale_formula formula = {(float)attr->factor, {NULL, HIL_F32}};
    if (!call->params) return hil_elements_run_cuda(call->device, "scale", job, formula);
    const void *weight;
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &weight));
    formula.more = {(void *)(uintptr_t)weight, call->param[0].dtype};
    hil_status status = hil_elements_run_cuda(call->device, "scale", job, formula);
    call->source->weight_end(call->owner, 0, 0);
    return status;
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
