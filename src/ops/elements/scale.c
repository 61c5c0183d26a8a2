/* scale.c - x times a number, and times another that is a parameter. */
#include "ops/elements/elements.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

/* Scratch: the parameter as fp32. */
static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_elements_single_infer(call));
    if (!call->params) return HIL_OK;
    HIL_TRY(hil_infer_vector(call, 0, 1));
    if (call->param[0].trainable)
        return hil_fail(HIL_ERR_USAGE, "scale: a factor that is trained is not supported");
    hil_scratch_add(&call->forward_scratch, 1, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    return HIL_OK;
}

static void scale_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                        float *const *out)
{
    (void)at;
    const hil_scale_attr *attr = job->call->attr;
    float factor = (float)attr->factor;
    if (job->call->params) factor *= *(const float *)job->call->scratch;
    hil_rows()->math.scale(out[0], in[0], factor, n);
}

static hil_status apply(const hil_op_call *call, const hil_tensor *in, const hil_tensor *out,
                        bool add)
{
    if (call->params) HIL_TRY(hil_op_vector(call, 0, call->scratch));
    hil_elements_run(&(hil_elements){.piece = scale_piece,
                                     .call = call,
                                     .count = hil_shape_count(&in->shape),
                                     .ins = 1,
                                     .outs = 1,
                                     .in = {*in},
                                     .out = {*out},
                                     .add = {add}});
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    return apply(call, &call->in[0], &call->out[0], false);
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    return apply(call, &call->dout[0], &call->din[0], call->din_add[0]);
}

const hil_op hil_op_scale = {
    .name = "scale",
    .attr_size = sizeof(hil_scale_attr),
    .reuse = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
