/* gelu.c - x times the normal distribution function of x, with erf or the tanh approximation. */
#include "ops/elements/elements.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    hil_infer_out(call, call->compute, &call->in[0].shape);
    return HIL_OK;
}

static bool uses_tanh(const hil_op_call *call)
{
    return ((const hil_gelu_attr *)call->attr)->tanh;
}

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)at;
    if (uses_tanh(job->call))
        hil_rows()->activation.gelu_tanh(out[0], in[0], n);
    else
        hil_rows()->activation.gelu_erf(out[0], in[0], n);
}

static hil_status forward(hil_op_call *call)
{
    hil_elements_run(&(hil_elements){.piece = forward_piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 1,
                                     .outs = 1,
                                     .in = {call->in[0]},
                                     .out = {call->out[0]}});
    return HIL_OK;
}

static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)at;
    if (uses_tanh(job->call))
        hil_rows()->activation.gelu_tanh_back(out[0], in[0], in[1], n);
    else
        hil_rows()->activation.gelu_erf_back(out[0], in[0], in[1], n);
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    hil_elements_run(&(hil_elements){.piece = backward_piece,
                                     .call = call,
                                     .count = hil_shape_count(&call->in[0].shape),
                                     .ins = 2,
                                     .outs = 1,
                                     .in = {call->in[0], call->dout[0]},
                                     .out = {call->din[0]},
                                     .add = {call->din_add[0]}});
    return HIL_OK;
}

const hil_op hil_op_gelu = {
    .name = "gelu",
    .attr_size = sizeof(hil_gelu_attr),
    .keep_in = 1,
    .reuse = 1,
    .cheap = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
