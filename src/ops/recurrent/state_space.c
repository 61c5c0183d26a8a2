/* state_space.c - the state space layer of Mamba-2 on the CPU: the recurrence of delta.h. */
#include "ops/infer.h"
#include "ops/recurrent/delta.h"

static hil_status infer(hil_op_call *call)
{
    const hil_state_space_attr *attr = call->attr;
    const hil_shape *x = &call->in[0].shape, *t = &call->in[1].shape;
    for (int i = 0; i < 2; ++i) HIL_TRY(hil_infer_float(call, i, 3));
    int64_t groups = attr->rule.key_heads, heads = t->dim[2];
    int64_t values = x->dim[2] - 2 * groups * attr->rule.key_dim;
    if (t->dim[0] != x->dim[0] || t->dim[1] != x->dim[1])
        return hil_fail(HIL_ERR_USAGE, "%s: %s are not steps for %s", call->op->name,
                        hil_infer_shape_text(t).text, hil_infer_shape_text(x).text);
    if (groups < 1 || attr->rule.key_dim < 1 || heads < 1 || heads % groups || values < 1 ||
        values % heads)
        return hil_fail(HIL_ERR_USAGE,
                        "%s: %s does not hold %lld heads, and %lld groups of %lld for B and C",
                        call->op->name, hil_infer_shape_text(x).text, (long long)heads,
                        (long long)groups, (long long)attr->rule.key_dim);
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_infer_vector(call, i, heads));
    return hil_delta_infer(call);
}

const hil_op hil_op_state_space = {
    .name = "state_space",
    .attr_size = sizeof(hil_state_space_attr),
    .keep_in = 7,
    .infer = infer,
    .forward = hil_delta_forward,
    .backward = hil_delta_backward,
};

const hil_op hil_op_state_space_cached = {
    .name = "cached state_space",
    .attr_size = sizeof(hil_state_space_attr),
    .infer = infer,
    .forward = hil_delta_forward,
};
