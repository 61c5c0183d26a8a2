/* split.c - equal parts of the last dimension. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows.h"

#include <string.h>

#define TASK_ROWS 16

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    hil_shape part = call->in[0].shape;
    int parts = call->outs;
    int64_t *cols = &part.dim[part.ndim - 1];
    if (parts < 1 || parts > HIL_OP_TENSORS || *cols % parts)
        return hil_fail(HIL_ERR_USAGE, "split: %s does not divide into %d equal parts",
                        hil_shape_print(&part).text, parts);
    *cols /= parts;
    hil_infer_out(call, call->in[0].dtype, &part);
    call->outs = parts;
    for (int i = 1; i < parts; ++i) {
        call->out[i].dtype = call->out[0].dtype;
        call->out[i].shape = part;
    }
    return HIL_OK;
}

static void zero(const hil_tensor *x, int64_t at, int64_t n)
{
    size_t size = hil_dtype_size(x->dtype);
    memset((char *)x->data + (size_t)at * size, 0, (size_t)n * size);
}

static void forward_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t rows = hil_shape_rows(&call->in[0].shape), cols = hil_shape_cols(&call->out[0].shape);
    for (int64_t r = task * TASK_ROWS; r < (task + 1) * TASK_ROWS && r < rows; ++r)
        for (int i = 0; i < call->outs; ++i)
            hil_row_copy(&call->out[i], r * cols, &call->in[0], (r * call->outs + i) * cols, cols,
                         false);
}

static void backward_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t rows = hil_shape_rows(&call->in[0].shape), cols = hil_shape_cols(&call->out[0].shape);
    for (int64_t r = task * TASK_ROWS; r < (task + 1) * TASK_ROWS && r < rows; ++r)
        for (int i = 0; i < call->outs; ++i) {
            int64_t at = (r * call->outs + i) * cols;
            if (call->dout[i].data)
                hil_row_copy(&call->din[0], at, &call->dout[i], r * cols, cols, call->din_add[0]);
            else if (!call->din_add[0])
                zero(&call->din[0], at, cols);
        }
}

static int64_t tasks(const hil_op_call *call)
{
    return (hil_shape_rows(&call->in[0].shape) + TASK_ROWS - 1) / TASK_ROWS;
}

static hil_status forward(hil_op_call *call)
{
    hil_pool_run(call->pool, forward_rows, call, tasks(call));
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data) hil_pool_run(call->pool, backward_rows, call, tasks(call));
    return HIL_OK;
}

const hil_op hil_op_split = {
    .name = "split",
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
