/* recurrent.c - operations of nn.h whose results at a position follow from a state. */
#include "autograd/tape.h"
#include "base/sized.h"

#include "hilbert/nn.h"

/* The state of the next recurrence in this pass, before and after it: [Note: states] in tape.h. The
   first pass allocates them. */
static hil_status state_slot(hil_tape *t, size_t bytes, const void **state, void **next)
{
    hil_kv_cache *cache = t->context->cache;
    size_t slot = cache->next_state++;
    assert(slot < cache->capacity);
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

/* `op`, or in generation `cached`. */
static hil_status convolve(hil_tape *t, const hil_op *op, const hil_op *cached, hil_value *x,
                           hil_param *kernel, hil_value **y)
{
    const hil_shape *shape = &x->tensor.shape;
    int64_t channels = hil_shape_cols(shape);
    hil_conv_attr attr = {.size = channels ? hil_param_elements(kernel) / channels : 0};
    hil_apply apply = {op, &attr, 2, 1, 1, {x, t->batch[3]}, {kernel}};
    if (t->context->mode == HIL_MODE_GENERATE) {
        size_t row = (size_t)channels * hil_dtype_size(t->context->compute);
        apply.op = cached;
        apply.ins = 1;
        attr.length = t->context->cache->length;
        HIL_TRY(
            state_slot(t, (size_t)(shape->dim[0] * (attr.size - 1)) * row, &attr.past, &attr.next));
    }
    return hil_tape_apply(t, &apply, y);
}

hil_status hil_causal_conv(hil_tape *t, hil_value *x, hil_param *kernel, hil_value **y)
{
    return convolve(t, &hil_op_causal_conv, &hil_op_causal_conv_cached, x, kernel, y);
}

hil_status hil_causal_conv_plain(hil_tape *t, hil_value *x, hil_param *kernel, hil_value **y)
{
    return convolve(t, &hil_op_causal_conv_plain, &hil_op_causal_conv_plain_cached, x, kernel, y);
}

void hil_delta_defaults_sized(hil_delta_options *options, size_t size)
{
    const hil_delta_options defaults = {.key_heads = 1};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

hil_status hil_delta_rule(hil_tape *t, hil_value *qkv, hil_value *b, hil_value *a,
                          const hil_delta_options *options, hil_value **y)
{
    hil_delta_options own;
    HIL_TRY(HIL_SIZED_TAKE(hil_delta, &own, options));
    hil_delta_attr attr = {.key_heads = own.key_heads, .key_dim = own.key_dim};
    hil_apply apply = {&hil_op_delta_rule,  &attr, 4, 1, 2, {qkv, b, a, t->batch[3]},
                       {own.rate, own.bias}};
    if (t->context->mode == HIL_MODE_GENERATE) {
        const hil_shape *x = &qkv->tensor.shape;
        int64_t values = hil_shape_cols(x) - 2 * own.key_heads * own.key_dim;
        apply.op = &hil_op_delta_rule_cached;
        apply.ins = 3;
        attr.length = t->context->cache->length;
        HIL_TRY(state_slot(t, (size_t)(x->dim[0] * own.key_dim * values) * sizeof(float),
                           &attr.state, &attr.next));
    }
    return hil_tape_apply(t, &apply, y);
}
