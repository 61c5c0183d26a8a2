/* custom.c - an operation that a program brings: its numbers are fp32, its memory is the tape's. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static hil_status infer(hil_op_call *call)
{
    for (int i = 0; i < call->ins; ++i) HIL_TRY(hil_infer_float(call, i, 0));
    hil_infer_out(call, call->compute, &call->in[0].shape);
    for (int i = 0; i < call->ins; ++i)
        hil_scratch_add(&call->forward_scratch, hil_shape_count(&call->in[i].shape), sizeof(float));
    int64_t count = hil_shape_count(&call->out[0].shape);
    call->backward_scratch = 2 * call->forward_scratch; /* inputs and their gradients */
    hil_scratch_add(&call->forward_scratch, count, sizeof(float));
    hil_scratch_add(&call->backward_scratch, count, sizeof(float));
    return HIL_OK;
}

/* A tensor in scratch memory from *at on, with the numbers of `from` where that has any. */
static hil_custom_tensor place(const hil_op_call *call, const hil_tensor *like, const void *from,
                               size_t *at)
{
    hil_custom_tensor t = {.dims = like->shape.ndim, .count = hil_shape_count(&like->shape)};
    for (int i = 0; i < t.dims; ++i) t.dim[i] = like->shape.dim[i];
    t.data = (float *)((char *)call->scratch + hil_scratch_add(at, t.count, sizeof(float)));
    if (from) hil_dtype_to_f32(t.data, from, like->dtype, t.count);
    return t;
}

static hil_status forward(hil_op_call *call)
{
    const hil_custom_attr *attr = call->attr;
    hil_custom_tensor x[HIL_OP_TENSORS], y;
    size_t at = 0;
    if (hil_pool_is_dry(call->pool)) return HIL_OK;
    for (int i = 0; i < call->ins; ++i) x[i] = place(call, &call->in[i], call->in[i].data, &at);
    y = place(call, &call->out[0], NULL, &at);
    attr->forward(attr->context, x, &y);
    hil_row_write_all(call->pool, &call->out[0], y.data, false);
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    const hil_custom_attr *attr = call->attr;
    hil_custom_tensor x[HIL_OP_TENSORS], dx[HIL_OP_TENSORS], dy;
    size_t at = 0;
    if (hil_pool_is_dry(call->pool)) return HIL_OK;
    for (int i = 0; i < call->ins; ++i) {
        x[i] = place(call, &call->in[i], call->in[i].data, &at);
        dx[i] = place(call, &call->in[i], NULL, &at);
        if (!call->din[i].data) dx[i].data = NULL;
    }
    dy = place(call, &call->dout[0], call->dout[0].data, &at);
    attr->backward(attr->context, x, &dy, dx);
    for (int i = 0; i < call->ins; ++i)
        if (dx[i].data) hil_row_write_all(call->pool, &call->din[i], dx[i].data, call->din_add[i]);
    return HIL_OK;
}

const hil_op hil_op_custom = {
    .name = "custom",
    .attr_size = sizeof(hil_custom_attr),
    .keep_in = 7,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
