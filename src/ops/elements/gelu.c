/* gelu.c - x times the normal distribution function of x, with erf or the tanh approximation. */
#include "ops/elements/elements.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

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
    return hil_elements_single_run(call, forward_piece);
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
    return hil_elements_single_back(call, backward_piece);
}

const hil_op hil_op_gelu = {
    .name = "gelu", .attr_size = sizeof(hil_gelu_attr), HIL_ELEMENTS_SINGLE_OP};
