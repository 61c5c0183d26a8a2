/* dropout.c - zeroes a random fraction of the elements; backward recomputes the mask. */
#include "ops/elements/elements.h"
#include "ops/infer.h"
#include "ops/mask.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static double rate(const hil_op_call *call)
{
    return ((const hil_dropout_attr *)call->attr)->rate;
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    if (!(rate(call) >= 0 && rate(call) < 1))
        return hil_fail(HIL_ERR_USAGE, "dropout: rate %g, expected 0 or more and less than 1",
                        rate(call));
    hil_infer_out(call, call->in[0].dtype, &call->in[0].shape);
    return HIL_OK;
}

/* Elements are numbered within their sequence, so that the mask does not depend on the batch. */
static void mask_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                       float *const *out)
{
    const hil_op_call *call = job->call;
    int64_t length = job->count / call->in[0].shape.dim[0];
    hil_mask mask = hil_mask_create(&call->random, rate(call));
    float factor[HIL_PIECE];
    for (int64_t i = 0; i < n;) {
        int64_t row = (at + i) / length, element = (at + i) % length;
        int64_t part = length - element < n - i ? length - element : n - i;
        hil_mask_fill(&mask, row, element, part, factor + i);
        i += part;
    }
    hil_rows()->math.multiply(out[0], in[0], factor, n);
}

static void apply(hil_op_call *call, const hil_tensor *in, const hil_tensor *out, bool add)
{
    hil_elements_run(&(hil_elements){.piece = mask_piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 1,
                                     .outs = 1,
                                     .in = {*in},
                                     .out = {*out},
                                     .add = {add}});
}

static hil_status forward(hil_op_call *call)
{
    apply(call, &call->in[0], &call->out[0], false);
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data) apply(call, &call->dout[0], &call->din[0], call->din_add[0]);
    return HIL_OK;
}

const hil_op hil_op_dropout = {
    .name = "dropout",
    .attr_size = sizeof(hil_dropout_attr),
    .reuse = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
