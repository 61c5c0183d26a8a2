/* mixture.c - the operations of nn.h for mixtures of experts. */
#include "autograd/tape.h"
#include "base/sized.h"

#include "hilbert/nn.h"

void hil_route_defaults_sized(hil_route_options *options, size_t size)
{
    const hil_route_options defaults = {.chosen = 1};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_route(hil_tape *t, hil_value *logits, hil_value *used,
                     const hil_route_options *options, hil_routing *routing)
{
    hil_route_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_route, &own, options));
    hil_route_attr attr = {.chosen = own.chosen,
                           .normalized = own.normalized,
                           .sigmoid = own.sigmoid,
                           .groups = own.groups,
                           .groups_chosen = own.groups_chosen,
                           .eps = own.eps,
                           .pairs = own.pairs,
                           .by_logits = own.by_logits,
                           .scale = own.scale};
    hil_apply apply = {.op = &hil_op_route,
                       .attr = &attr,
                       .ins = used ? 2 : 1,
                       .outs = 4,
                       .params = own.correction ? 1 : 0,
                       .in = {logits, used},
                       .param = {own.correction}};
    hil_value *out[4];
    HIL_TRY(hil_tape_apply(t, &apply, out));
    *routing = (hil_routing){out[0], out[1], out[2], out[3], false, own.identities};
    return HIL_OK;
}

hil_status hil_dispatch(hil_tape *t, hil_value *x, const hil_routing *routing, hil_value **rows)
{
    return hil_tape_apply(
        t, &(hil_apply){&hil_op_dispatch, NULL, 2, 1, 0, {x, routing->places}, {NULL}}, rows);
}

hil_status hil_dispatch_weighed(hil_tape *t, hil_value *x, hil_routing *routing, hil_value **rows)
{
    routing->weighed = true;
    return hil_tape_apply(
        t,
        &(hil_apply){&hil_op_dispatch, NULL, 3, 1, 0, {x, routing->places, routing->weights}, {0}},
        rows);
}

hil_status hil_expert_bias(hil_tape *t, hil_value *rows, const hil_routing *routing,
                           hil_param *bias, hil_value **y)
{
    return hil_tape_apply(
        t, &(hil_apply){&hil_op_expert_bias, NULL, 2, 1, 1, {rows, routing->begins}, {bias}}, y);
}

hil_status hil_expert_scale(hil_tape *t, hil_routing *routing, hil_param *factors)
{
    hil_apply apply = {.op = &hil_op_expert_scale,
                       .ins = 3,
                       .outs = 1,
                       .params = 1,
                       .in = {routing->weights, routing->places, routing->begins},
                       .param = {factors}};
    return hil_tape_apply(t, &apply, &routing->weights);
}

hil_status hil_expert_identity(hil_tape *t, hil_value *x, const hil_routing *routing, hil_value **y)
{
    hil_identity_attr attr = {hil_value_dim(routing->begins, 0) - 1 - routing->identities};
    hil_apply apply = {.op = &hil_op_expert_identity,
                       .attr = &attr,
                       .ins = 4,
                       .outs = 1,
                       .in = {x, routing->weights, routing->places, routing->begins}};
    return hil_tape_apply(t, &apply, y);
}

hil_status hil_combine(hil_tape *t, hil_value *rows, const hil_routing *routing,
                       hil_value *residual, hil_value **y)
{
    hil_value *weights = routing->weights;
    if (routing->weighed)
        HIL_TRY(hil_tape_reshape(t, routing->places, &weights->tensor.shape, &weights));
    hil_apply apply = {
        &hil_op_combine, NULL, residual ? 4 : 3, 1, 0, {rows, weights, routing->places, residual},
        {NULL}};
    rows->root->bulky = true; /* many times x, for the gradients of the weights alone */
    return hil_tape_apply(t, &apply, y);
}

/* Whether losses of routers count: beside cross-entropy alone. */
static bool adds_losses(const hil_context *c)
{
    if (c->mode != HIL_MODE_TRACE && c->mode != HIL_MODE_LOSS) return false;
    return c->preference.kind == HIL_PREFER_NONE;
}

/* Adds the two numbers of `loss` to those of the tape: to the loss, and to `number`. */
static hil_status add_loss(hil_tape *t, const hil_value *loss, hil_preference_number number)
{
    hil_context *c = t->context;
    hil_tensor each = {HIL_F32, {1, {1}}, loss->tensor.data};
    if (c->mode == HIL_MODE_TRACE || !t->loss) return HIL_OK;
    HIL_TRY(hil_op_sum(c->device, c->pool, &each, t->loss));
    each.data = (float *)each.data + 1;
    return hil_op_sum(c->device, c->pool, &each, t->loss + number);
}

hil_status hil_balance_loss(hil_tape *t, hil_value *used, int64_t layers, double coefficient)
{
    if (!adds_losses(t->context)) return HIL_OK;
    const hil_shape *batch = &t->batch[1]->tensor.shape;
    hil_balance_attr attr = {coefficient, layers * hil_shape_count(batch)};
    hil_value *loss;
    HIL_TRY(hil_tape_apply(
        t, &(hil_apply){&hil_op_balance, &attr, 2, 1, 0, {used, t->batch[1]}, {NULL}}, &loss));
    return add_loss(t, loss, HIL_LOSS_AUXILIARY);
}

hil_status hil_router_z_loss(hil_tape *t, hil_value *logits, int64_t layers, double coefficient)
{
    const hil_context *c = t->context;
    if (!adds_losses(c) || (c->mode == HIL_MODE_LOSS && !c->training)) return HIL_OK;
    hil_router_z_attr attr = {coefficient, layers};
    hil_value *loss;
    HIL_TRY(hil_tape_apply(
        t, &(hil_apply){&hil_op_router_z, &attr, 2, 1, 0, {logits, t->batch[1]}, {NULL}}, &loss));
    return add_loss(t, loss, HIL_LOSS_ROUTER_Z);
}
