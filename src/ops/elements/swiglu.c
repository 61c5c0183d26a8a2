/* swiglu.c - silu(gate) * up. */
#include "ops/elements/elements.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)job, (void)at;
    hil_rows()->activation.swiglu(out[0], in[0], in[1], n);
}

static hil_status forward(hil_op_call *call)
{
    hil_elements_pair_run(call, forward_piece);
    return HIL_OK;
}

static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)job, (void)at;
    hil_rows()->activation.swiglu_back(out, in, n);
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data && !call->din[1].data) return HIL_OK;
    hil_elements_run(&(hil_elements){.piece = backward_piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 3,
                                     .outs = 2,
                                     .in = {call->in[0], call->in[1], call->dout[0]},
                                     .out = {call->din[0], call->din[1]},
                                     .add = {call->din_add[0], call->din_add[1]}});
    return HIL_OK;
}

const hil_op hil_op_swiglu = {
    .name = "swiglu",
    .keep_in = 3,
    .reuse = 1,
    .cheap = true,
    .infer = hil_elements_pair_infer,
    .forward = forward,
    .backward = backward,
};
