/* attention.c - causal attention with grouped heads, and its form for generation. */
#include "ops/attention/attention_kernel.h"
#include "ops/attention/attention_parts.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

static hil_status infer_packed(const hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 4));
    const hil_shape *x = &call->in[0].shape;
    if (x->dim[2] < 3 || x->dim[2] % 3)
        return hil_fail(HIL_ERR_USAGE,
                        "%s: %s does not hold as many heads of queries, keys and values",
                        call->op->name, hil_infer_shape_text(x).text);
    return HIL_OK;
}

static hil_status infer_apart(const hil_op_call *call)
{
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_infer_float(call, i, 4));
    const hil_shape *q = &call->in[0].shape, *k = &call->in[1].shape, *v = &call->in[2].shape;
    if (q->dim[0] != k->dim[0] || q->dim[1] != k->dim[1] || q->dim[3] != k->dim[3] ||
        k->dim[2] < 1 || q->dim[2] % k->dim[2])
        return hil_fail(HIL_ERR_USAGE, "%s: queries %s do not fit keys %s", call->op->name,
                        hil_infer_shape_text(q).text, hil_infer_shape_text(k).text);
    if (!hil_shape_equal(k, v))
        return hil_fail(HIL_ERR_USAGE, "%s: keys %s do not fit values %s", call->op->name,
                        hil_infer_shape_text(k).text, hil_infer_shape_text(v).text);
    return HIL_OK;
}

static hil_status infer_heads(hil_op_call *call)
{
    HIL_TRY(hil_attention_is_packed(call) ? infer_packed(call) : infer_apart(call));
    hil_attention_parts parts = hil_attention_parts_of(call, call->in);
    hil_infer_out(call, call->compute, &parts.q.shape);
    int64_t heads = parts.q.shape.dim[2];
    if (!call->params) return HIL_OK;
    if (call->param[0].rows != 1 || call->param[0].cols != heads)
        return hil_fail(HIL_ERR_USAGE, "%s: sinks %s are not one for each of %lld heads",
                        call->op->name, hil_infer_param_text(&call->param[0]).text,
                        (long long)heads);
    hil_scratch_add(&call->forward_scratch, heads, sizeof(float));
    return HIL_OK;
}

/* Reads the sinks, if there are any, into the call's scratch memory. */
static hil_status read_sinks(const hil_op_call *call, hil_attention *a)
{
    if (!call->params) return HIL_OK;
    a->sinks = call->scratch;
    return hil_op_vector(call, 0, call->scratch);
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(infer_heads(call));
    const hil_shape *q = &call->out[0].shape;
    HIL_TRY(hil_infer_ids(call, call->ins - 1, q));
    const hil_attention_attr *attr = call->attr;
    if (!(attr->dropout >= 0 && attr->dropout < 1))
        return hil_fail(HIL_ERR_USAGE, "attention: dropout %g, expected 0 or more and less than 1",
                        attr->dropout);
    call->saveds = 1;
    call->saved[0].dtype = HIL_F32;
    call->saved[0].shape = (hil_shape){3, {q->dim[0], q->dim[2], q->dim[1]}};
    call->backward_scratch = call->forward_scratch;
    if (call->params)
        hil_scratch_add(&call->backward_scratch, q->dim[0] * q->dim[2], sizeof(float));
    return HIL_OK;
}

static hil_attention describe(const hil_op_call *call)
{
    hil_attention_parts parts = hil_attention_parts_of(call, call->in);
    const int64_t *q = parts.q.shape.dim;
    return (hil_attention){.batch = q[0],
                           .queries = q[1],
                           .heads = q[2],
                           .groups = parts.k.shape.dim[2],
                           .dim = q[3],
                           .capacity = q[1],
                           .q = parts.q,
                           .k = parts.k,
                           .v = parts.v,
                           .q_stride = parts.q_stride,
                           .kv_stride = parts.kv_stride,
                           .out = call->out[0]};
}

/* `a` borrows `mask`. */
static void describe_training(const hil_op_call *call, hil_mask *mask, hil_attention *a)
{
    const hil_attention_attr *attr = call->attr;
    *a = describe(call);
    a->first = call->in[call->ins - 1].data;
    a->window = attr->window;
    a->chunk = attr->chunk;
    a->scale = (float)attr->scale;
    a->cap = (float)attr->cap;
    a->lse = call->saved[0].data;
    *mask = hil_mask_create(&call->random, attr->dropout);
    if (attr->dropout > 0) a->mask = mask;
}

static hil_status forward(hil_op_call *call)
{
    hil_mask mask;
    hil_attention a;
    describe_training(call, &mask, &a);
    HIL_TRY(read_sinks(call, &a));
    return hil_attention_forward(call->pool, &a);
}

static hil_status backward(hil_op_call *call)
{
    hil_mask mask;
    hil_attention a;
    describe_training(call, &mask, &a);
    HIL_TRY(read_sinks(call, &a));
    float *dsinks = NULL;
    if (call->params && call->param[0].trainable) {
        size_t at = 0;
        hil_scratch_add(&at, a.heads, sizeof(float));
        dsinks = (float *)((char *)call->scratch + at);
    }
    hil_attention_parts parts = hil_attention_parts_of(call, call->din);
    bool packed = hil_attention_is_packed(call);
    HIL_TRY(
        hil_attention_backward(call->pool, &a,
                               &(hil_attention_gradients){.dout = call->dout[0],
                                                          .dq = parts.q,
                                                          .dk = parts.k,
                                                          .dv = parts.v,
                                                          .add_dq = call->din_add[0],
                                                          .add_dk = call->din_add[packed ? 0 : 1],
                                                          .add_dv = call->din_add[packed ? 0 : 2],
                                                          .dsinks = dsinks}));
    if (!dsinks) return HIL_OK;
    return hil_op_gather_vectors(call, &dsinks, a.batch, a.heads);
}

const hil_op hil_op_attention = {
    .name = "attention",
    .attr_size = sizeof(hil_attention_attr),
    .keep_in = 15,
    .keep_out = 1,
    .light = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

static hil_status infer_cached(hil_op_call *call)
{
    HIL_TRY(infer_heads(call));
    const hil_cached_attr *attr = call->attr;
    if (attr->length + call->in[0].shape.dim[1] > attr->capacity)
        return hil_fail(HIL_ERR_USAGE, "attention: %lld new positions after %lld, room for %lld",
                        (long long)call->in[0].shape.dim[1], (long long)attr->length,
                        (long long)attr->capacity);
    return HIL_OK;
}

/* Writes rows [length, length + T) of the cache. */
static void extend(const hil_op_call *call, const hil_tensor *x, int64_t stride, void *cache)
{
    const hil_cached_attr *attr = call->attr;
    int64_t batch = x->shape.dim[0], queries = x->shape.dim[1];
    int64_t row = x->shape.dim[2] * x->shape.dim[3];
    hil_tensor to = {.dtype = call->compute, .data = cache};
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t t = 0; t < queries; ++t)
            hil_row_copy(&to, (b * attr->capacity + attr->length + t) * row, x,
                         (b * queries + t) * stride, row, false);
}

static hil_status forward_cached(hil_op_call *call)
{
    const hil_cached_attr *attr = call->attr;
    hil_attention a = describe(call);
    if (!hil_pool_is_dry(call->pool)) {
        extend(call, &a.k, a.kv_stride, attr->k);
        extend(call, &a.v, a.kv_stride, attr->v);
    }
    a.k = (hil_tensor){.dtype = call->compute, .data = attr->k};
    a.v = (hil_tensor){.dtype = call->compute, .data = attr->v};
    a.kv_stride = a.groups * a.dim;
    a.past = attr->length;
    a.capacity = attr->capacity;
    a.window = attr->window;
    a.chunk = attr->chunk;
    a.scale = (float)attr->scale;
    a.cap = (float)attr->cap;
    HIL_TRY(read_sinks(call, &a));
    return hil_attention_forward(call->pool, &a);
}

const hil_op hil_op_attention_cached = {
    .name = "cached attention",
    .attr_size = sizeof(hil_cached_attr),
    .infer = infer_cached,
    .forward = forward_cached,
};
