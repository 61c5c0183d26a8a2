/* run.c - an operation runs where its call says: on a device, or on the CPU. */
#include "ops/op.h"

hil_status hil_op_infer(hil_op_call *call)
{
    return call->device ? call->device->ops->infer(call) : call->op->infer(call);
}

hil_status hil_op_forward(hil_op_call *call)
{
    return call->device ? call->device->ops->forward(call) : call->op->forward(call);
}

hil_status hil_op_backward(hil_op_call *call)
{
    if (call->device) return call->device->ops->backward(call);
    return call->op->backward ? call->op->backward(call) : HIL_OK;
}
