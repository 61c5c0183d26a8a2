/* recurrent.c - operations of nn.h whose results at a position follow from a state. */
#include "autograd/tape.h"
#include "base/sized.h"

#include "hilbert/nn.h"

#include <math.h>

/* The state of the next recurrence in this pass, before and after it: [Note: states] in tape.h. The
   first pass allocates them. */
static hil_status state_slot(hil_tape *t, size_t bytes, const void **state, void **next)
{
    hil_kv_cache *cache = t->context->cache;
    size_t slot = cache->next_state++;
    HIL_TRY(hil_tape_check_slot(cache, slot, "recurrences"));
    if (slot == cache->states) {
        HIL_TRY(hil_buffers_take(t->context->buffers, bytes, &cache->state[0][slot]));
        hil_status status = hil_buffers_take(t->context->buffers, bytes, &cache->state[1][slot]);
        if (status != HIL_OK) hil_buffers_give(t->context->buffers, cache->state[0][slot]);
        HIL_TRY(status);
        ++cache->states;
    }
    *state = cache->state[cache->turn][slot];
    *next = cache->state[!cache->turn][slot];
    return HIL_OK;
}

/* The first operation, or in generation the second; `bias` may be NULL. */
static hil_status convolve(hil_tape *t, const hil_op *const op_cached[2], hil_value *x,
                           hil_param *kernel, hil_param *bias, hil_value **y)
{
    const hil_shape *shape = &x->tensor.shape;
    int64_t channels = hil_shape_cols(shape);
    hil_conv_attr attr = {.size = channels ? hil_param_elements(kernel) / channels : 0};
    hil_apply apply = {op_cached[0], &attr, 2, 1, bias ? 2 : 1, {x, t->batch[3]}, {kernel, bias}};
    if (t->context->mode == HIL_MODE_GENERATE) {
        size_t row = (size_t)channels * hil_dtype_size(t->context->compute);
        apply.op = op_cached[1];
        apply.ins = 1;
        attr.length = t->context->cache->length;
        HIL_TRY(
            state_slot(t, (size_t)(shape->dim[0] * (attr.size - 1)) * row, &attr.past, &attr.next));
    }
    return hil_tape_apply(t, &apply, y);
}

hil_status hil_causal_conv(hil_tape *t, hil_value *x, hil_param *kernel, hil_value **y)
{
    return hil_causal_conv_biased(t, x, kernel, NULL, y);
}

hil_status hil_causal_conv_biased(hil_tape *t, hil_value *x, hil_param *kernel, hil_param *bias,
                                  hil_value **y)
{
    static const hil_op *const ops[] = {&hil_op_causal_conv, &hil_op_causal_conv_cached};
    return convolve(t, ops, x, kernel, bias, y);
}

hil_status hil_causal_conv_plain(hil_tape *t, hil_value *x, hil_param *kernel, hil_value **y)
{
    static const hil_op *const ops[] = {&hil_op_causal_conv_plain,
                                        &hil_op_causal_conv_plain_cached};
    return convolve(t, ops, x, kernel, NULL, y);
}

void hil_delta_defaults_sized(hil_delta_options *options, size_t size)
{
    const hil_delta_options defaults = {.key_heads = 1};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

/* In generation a rule has no `first`, its last input, and the states before and after it. */
static hil_status keep_state(hil_tape *t, hil_apply *apply, const hil_op *cached,
                             hil_delta_attr *attr)
{
    const hil_shape *x = &apply->in[0]->tensor.shape;
    int64_t values = hil_shape_cols(x) - 2 * attr->key_heads * attr->key_dim;
    apply->op = cached;
    --apply->ins;
    attr->length = t->context->cache->length;
    return state_slot(t, (size_t)(x->dim[0] * attr->key_dim * values) * sizeof(float), &attr->state,
                      &attr->next);
}

/* The first operation, or in generation the second; `rule` is what `attr` begins with. */
static hil_status apply_delta(hil_tape *t, const hil_op *const op_cached[2], const void *attr,
                              hil_delta_attr *rule, hil_apply apply, hil_value **y)
{
    apply.op = op_cached[0], apply.attr = attr, apply.ins = 4, apply.outs = 1, apply.params = 2;
    apply.in[3] = t->batch[3];
    if (t->context->mode == HIL_MODE_GENERATE) HIL_TRY(keep_state(t, &apply, op_cached[1], rule));
    return hil_tape_apply(t, &apply, y);
}

hil_status hil_delta_rule(hil_tape *t, hil_value *qkv, hil_value *b, hil_value *a,
                          const hil_delta_options *options, hil_value **y)
{
    static const hil_op *const ops[] = {&hil_op_delta_rule, &hil_op_delta_rule_cached};
    hil_delta_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_delta, &own, options));
    hil_delta_attr attr = {.key_heads = own.key_heads, .key_dim = own.key_dim, .write = own.write};
    hil_apply apply = {.in = {qkv, b, a}, .param = {own.rate, own.bias}};
    return apply_delta(t, ops, &attr, &attr, apply, y);
}

hil_status hil_channel_delta(hil_tape *t, hil_value *qkv, hil_value *b, hil_value *a,
                             const hil_delta_options *options, hil_value **y)
{
    static const hil_op *const ops[] = {&hil_op_channel_delta, &hil_op_channel_delta_cached};
    hil_delta_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_delta, &own, options));
    hil_channel_delta_attr attr = {{.key_heads = own.key_heads, .key_dim = own.key_dim}, own.floor};
    hil_apply apply = {.in = {qkv, b, a}, .param = {own.rate, own.bias}};
    return apply_delta(t, ops, &attr, &attr.rule, apply, y);
}

void hil_state_space_defaults_sized(hil_state_space_options *options, size_t size)
{
    const hil_state_space_options defaults = {.groups = 1};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_state_space(hil_tape *t, hil_value *xbc, hil_value *steps,
                           const hil_state_space_options *options, hil_value **y)
{
    hil_state_space_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_state_space, &own, options));
    hil_state_space_attr attr = {.rule = {.key_heads = own.groups, .key_dim = own.states},
                                 .least = own.least,
                                 .most = own.most > 0 ? own.most : INFINITY};
    hil_apply apply = {&hil_op_state_space,
                       &attr,
                       3,
                       1,
                       3,
                       {xbc, steps, t->batch[3]},
                       {own.rate, own.bias, own.direct}};
    if (t->context->mode == HIL_MODE_GENERATE)
        HIL_TRY(keep_state(t, &apply, &hil_op_state_space_cached, &attr.rule));
    return hil_tape_apply(t, &apply, y);
}
