/* rmsnorm.c - x / sqrt(mean of squares + eps) * weight over the last dimension. */
#include "ops/norm/norm.h"
#include "ops/ops.h"

static hil_status infer(hil_op_call *call)
{
    return hil_norm_infer(call, false);
}

static hil_status forward(hil_op_call *call)
{
    return hil_norm_forward(call, false);
}

static hil_status backward(hil_op_call *call)
{
    return hil_norm_backward(call, false);
}

const hil_op hil_op_rmsnorm = {
    .name = "rmsnorm",
    .attr_size = sizeof(hil_norm_attr),
    .keep_in = 1,
    .cheap = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
