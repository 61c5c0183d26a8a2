/* softcap.c - cap * tanh(x / cap): bounds numbers smoothly. */
#include "ops/elements/elements.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static float cap_of(const hil_elements *job)
{
    return (float)((const hil_softcap_attr *)job->call->attr)->cap;
}

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)at;
    hil_rows()->cap.bound(out[0], in[0], cap_of(job), n);
}

static hil_status forward(hil_op_call *call)
{
    return hil_elements_single_run(call, forward_piece);
}

static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    (void)at;
    float bounded[HIL_PIECE];
    hil_rows()->cap.bound(bounded, in[0], cap_of(job), n);
    hil_rows()->cap.slope(out[0], bounded, in[1], cap_of(job), n);
}

static hil_status backward(hil_op_call *call)
{
    return hil_elements_single_back(call, backward_piece);
}

const hil_op hil_op_softcap = {
    .name = "softcap", .attr_size = sizeof(hil_softcap_attr), HIL_ELEMENTS_SINGLE_OP};
