/* add.c - the residual sum. Its gradient is dout itself for both inputs: whoever runs backward
   passes it on, converted where an input's gradient has another dtype. */
#include "ops/elements/elements.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    HIL_TRY(hil_infer_float(call, 1, 0));
    HIL_TRY(hil_infer_same(call, 1));
    hil_infer_out(call, call->compute, &call->in[0].shape);
    return HIL_OK;
}

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)job, (void)at;
    hil_rows()->add(out[0], in[0], in[1], n);
}

static hil_status forward(hil_op_call *call)
{
    hil_elements_run(&(hil_elements){.piece = forward_piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 2,
                                     .outs = 1,
                                     .in = {call->in[0], call->in[1]},
                                     .out = {call->out[0]}});
    return HIL_OK;
}

const hil_op hil_op_add = {
    .name = "add",
    .pass = 3,
    .infer = infer,
    .forward = forward,
};
