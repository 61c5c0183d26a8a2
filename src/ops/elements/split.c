/* split.c - cuts the last dimension into parts, each a tensor of its own: fused projections. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#define TASK_ROWS 16

static hil_status infer(hil_op_call *call)
{
    const hil_split_attr *attr = call->attr;
    HIL_TRY(hil_infer_float(call, 0, 0));
    hil_shape shape = call->in[0].shape;
    int64_t sum = 0, cols = hil_shape_cols(&shape);
    if (attr->parts < 1 || attr->parts > HIL_OP_TENSORS)
        return hil_fail(HIL_ERR_USAGE, "split: %d parts, expected 1 to %d", attr->parts,
                        HIL_OP_TENSORS);
    for (int i = 0; i < attr->parts; ++i) sum += attr->size[i];
    if (sum != cols)
        return hil_fail(HIL_ERR_USAGE, "split: parts of %lld numbers in all, but rows are %s",
                        (long long)sum, hil_infer_shape_text(&shape).text);
    hil_infer_out(call, call->compute, &shape);
    call->outs = attr->parts;
    for (int i = 0; i < attr->parts; ++i) {
        shape.dim[shape.ndim - 1] = attr->size[i];
        call->out[i].dtype = call->compute;
        call->out[i].shape = shape;
    }
    return HIL_OK;
}

typedef struct job {
    const hil_op_call *call;
    bool back;
} job;

static void copy_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const job *j = context;
    const hil_op_call *call = j->call;
    const hil_split_attr *attr = call->attr;
    int64_t rows = hil_shape_rows(&call->in[0].shape), cols = hil_shape_cols(&call->in[0].shape);
    for (int64_t r = task * TASK_ROWS; r < (task + 1) * TASK_ROWS && r < rows; ++r)
        for (int64_t i = 0, at = r * cols, n; i < attr->parts; ++i, at += n) {
            n = attr->size[i];
            if (!j->back)
                hil_row_copy(&call->out[i], r * n, &call->in[0], at, n, false);
            else if (call->dout[i].data)
                hil_row_copy(&call->din[0], at, &call->dout[i], r * n, n, call->din_add[0]);
            else if (!call->din_add[0])
                hil_row_clear(&call->din[0], at, n);
        }
}

static hil_status run(hil_op_call *call, bool back)
{
    job j = {call, back};
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    hil_pool_run(call->pool, copy_rows, &j, (rows + TASK_ROWS - 1) / TASK_ROWS);
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    return run(call, false);
}

static hil_status backward(hil_op_call *call)
{
    return call->din[0].data ? run(call, true) : HIL_OK;
}

const hil_op hil_op_split = {
    .name = "split",
    .attr_size = sizeof(hil_split_attr),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
