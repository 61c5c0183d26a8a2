/* balance.c - the auxiliary loss that makes routers use all experts alike. */
#include "ops/infer.h"
#include "ops/ops.h"

static hil_status infer(hil_op_call *call)
{
    const hil_tensor *use = &call->in[0];
    if (use->dtype != HIL_F32 || use->shape.ndim != 2 || use->shape.dim[0] != 2)
        return hil_fail(HIL_ERR_USAGE, "balance: input 0 is %s %s, expected fp32 (2, experts)",
                        hil_dtype_name(use->dtype), hil_infer_shape_text(&use->shape).text);
    hil_infer_out(call, HIL_F32, &(hil_shape){1, {2}});
    return HIL_OK;
}

static double learned(const hil_op_call *call)
{
    const int32_t *target = call->in[1].data;
    int64_t count = 0;
    for (int64_t i = 0; i < hil_shape_count(&call->in[1].shape); ++i) count += target[i] >= 0;
    return (double)count;
}

static void forward_all(void *context, int64_t task, int thread)
{
    (void)task, (void)thread;
    const hil_op_call *call = context;
    const hil_balance_attr *attr = call->attr;
    int64_t experts = call->in[0].shape.dim[1];
    const float *count = call->in[0].data, *probability = count + experts;
    double sum = 0, rows = (double)attr->rows;
    for (int64_t e = 0; e < experts; ++e)
        sum += (double)count[e] / rows * ((double)probability[e] / rows);
    double loss = sum * (double)experts * learned(call);
    float *out = call->out[0].data;
    out[0] = (float)(attr->coefficient * loss);
    out[1] = (float)loss;
}

static hil_status forward(hil_op_call *call)
{
    hil_pool_run(call->pool, forward_all, call, 1);
    return HIL_OK;
}

static void backward_all(void *context, int64_t task, int thread)
{
    (void)task, (void)thread;
    const hil_op_call *call = context;
    const hil_balance_attr *attr = call->attr;
    int64_t experts = call->in[0].shape.dim[1];
    const float *count = call->in[0].data;
    float *out = call->din[0].data;
    double rows = (double)attr->rows, factor = (double)call->loss_scale * learned(call) *
                                               attr->coefficient * (double)experts / (rows * rows);
    for (int64_t e = 0; e < experts; ++e) {
        float dp = (float)(factor * (double)count[e]);
        out[e] = call->din_add[0] ? out[e] : 0;
        out[experts + e] = call->din_add[0] ? out[experts + e] + dp : dp;
    }
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data) hil_pool_run(call->pool, backward_all, call, 1);
    return HIL_OK;
}

const hil_op hil_op_balance = {
    .name = "balance",
    .attr_size = sizeof(hil_balance_attr),
    .keep_in = 3,
    .loss = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
