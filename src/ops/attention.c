/* attention.c - causal attention with grouped heads; a row of scores exists at a time. */
#include "ops/infer.h"
#include "ops/mask.h"
#include "ops/ops.h"
#include "ops/rows.h"

#include <math.h>
#include <string.h>

typedef struct sizes {
    int64_t batch, queries, heads, groups, dim; /* B, T, H, KV, D */
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_shape *q = &call->in[0].shape, *k = &call->in[1].shape;
    return (sizes){q->dim[0], q->dim[1], q->dim[2], k->dim[2], q->dim[3]};
}

static hil_status infer_heads(hil_op_call *call)
{
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_infer_float(call, i, 4));
    const hil_shape *q = &call->in[0].shape, *k = &call->in[1].shape, *v = &call->in[2].shape;
    if (q->dim[0] != k->dim[0] || q->dim[1] != k->dim[1] || q->dim[3] != k->dim[3] ||
        k->dim[2] < 1 || q->dim[2] % k->dim[2])
        return hil_fail(HIL_ERR_USAGE, "%s: queries %s do not fit keys %s", call->op->name,
                        hil_shape_print(q).text, hil_shape_print(k).text);
    if (!hil_shape_equal(k, v))
        return hil_fail(HIL_ERR_USAGE, "%s: keys %s do not fit values %s", call->op->name,
                        hil_shape_print(k).text, hil_shape_print(v).text);
    hil_infer_out(call, call->compute, q);
    return HIL_OK;
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(infer_heads(call));
    const hil_shape *q = &call->in[0].shape;
    HIL_TRY(hil_infer_ids(call, 3, q));
    const hil_attention_attr *attr = call->attr;
    if (!(attr->dropout >= 0 && attr->dropout < 1))
        return hil_fail(HIL_ERR_USAGE, "attention: dropout %g, expected 0 or more and less than 1",
                        attr->dropout);
    call->saveds = 1;
    call->saved[0].dtype = HIL_F32;
    call->saved[0].shape = (hil_shape){3, {q->dim[0], q->dim[2], q->dim[1]}};
    return HIL_OK;
}

/* Query t sees keys [from, t]. */
static int64_t visible_from(const hil_op_call *call, int64_t b, int64_t t)
{
    const hil_attention_attr *attr = call->attr;
    int64_t from = ((const int32_t *)call->in[3].data)[b * call->in[0].shape.dim[1] + t];
    int64_t window = attr->window > 0 && t + 1 > attr->window ? t + 1 - attr->window : 0;
    return from > window ? from : window;
}

static float dot(const float *x, const float *y, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    return sum;
}

static void accumulate(float *sum, const float *x, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

/* A thread's memory: keys, values and their gradients (T, D), three rows of T, four of D. */
typedef struct work {
    float *k, *v, *dk, *dv;
    float *score, *factor, *dscore;
    float *q, *out, *dout, *dq;
} work;

static work thread_work(const hil_pool *pool, int thread, int64_t keys, int64_t dim)
{
    float *at = hil_pool_scratch(pool, thread);
    work w = {.k = at, .v = at + keys * dim, .dk = at + 2 * keys * dim, .dv = at + 3 * keys * dim};
    at += 4 * keys * dim;
    w.score = at, w.factor = at + keys, w.dscore = at + 2 * keys;
    at += 3 * keys;
    w.q = at, w.out = at + dim, w.dout = at + 2 * dim, w.dq = at + 3 * dim;
    return w;
}

static hil_status reserve(const hil_op_call *call, int64_t keys, int64_t dim)
{
    return hil_pool_reserve(call->pool, (size_t)(4 * keys * dim + 3 * keys + 4 * dim) * 4);
}

static void read_copy(float *out, const hil_tensor *x, int64_t at, int64_t n)
{
    const float *from = hil_row_read(x, at, n, out);
    if (from != out) memcpy(out, from, (size_t)n * sizeof *out);
}

/* One head's rows of x (B, T, heads, D). */
static void read_head(float *out, const hil_tensor *x, int64_t b, int64_t head)
{
    const int64_t *d = x->shape.dim;
    for (int64_t t = 0; t < d[1]; ++t)
        read_copy(out + t * d[3], x, ((b * d[1] + t) * d[2] + head) * d[3], d[3]);
}

static void write_head(const hil_tensor *x, int64_t b, int64_t head, const float *from, bool add)
{
    const int64_t *d = x->shape.dim;
    for (int64_t t = 0; t < d[1]; ++t)
        hil_row_write(x, ((b * d[1] + t) * d[2] + head) * d[3], d[3], from + t * d[3], add);
}

/* Softmax over keys [from, to) for w->q; leaves probabilities in w->score; returns the lse. */
static float attend(const work *w, int64_t from, int64_t to, int64_t dim, float scale)
{
    float most = -INFINITY, sum = 0;
    for (int64_t s = from; s < to; ++s) {
        w->score[s] = scale * dot(w->q, w->k + s * dim, dim);
        most = fmaxf(most, w->score[s]);
    }
    for (int64_t s = from; s < to; ++s) {
        w->score[s] = expf(w->score[s] - most);
        sum += w->score[s];
    }
    for (int64_t s = from; s < to; ++s) w->score[s] /= sum;
    return most + logf(sum);
}

static void drop(const hil_op_call *call, const sizes *z, int64_t b, int64_t row, float *factor)
{
    const hil_attention_attr *attr = call->attr;
    hil_mask mask = hil_mask_create(&call->random, attr->dropout);
    if (attr->dropout > 0)
        hil_mask_fill(&mask, b, row * z->queries, z->queries, factor);
    else
        for (int64_t s = 0; s < z->queries; ++s) factor[s] = 1;
}

static void forward_head(void *context, int64_t task, int thread)
{
    const hil_op_call *call = context;
    sizes z = measure(call);
    int64_t b = task / z.heads, h = task % z.heads, group = h / (z.heads / z.groups);
    float scale = (float)((const hil_attention_attr *)call->attr)->scale;
    float *lse = (float *)call->saved[0].data + task * z.queries;
    work w = thread_work(call->pool, thread, z.queries, z.dim);
    read_head(w.k, &call->in[1], b, group);
    read_head(w.v, &call->in[2], b, group);
    for (int64_t t = 0; t < z.queries; ++t) {
        int64_t at = ((b * z.queries + t) * z.heads + h) * z.dim, from = visible_from(call, b, t);
        read_copy(w.q, &call->in[0], at, z.dim);
        lse[t] = attend(&w, from, t + 1, z.dim, scale);
        drop(call, &z, b, h * z.queries + t, w.factor);
        memset(w.out, 0, (size_t)z.dim * sizeof(float));
        for (int64_t s = from; s <= t; ++s)
            accumulate(w.out, w.v + s * z.dim, w.score[s] * w.factor[s], z.dim);
        hil_row_write(&call->out[0], at, z.dim, w.out, false);
    }
}

static hil_status forward(hil_op_call *call)
{
    sizes z = measure(call);
    HIL_TRY(reserve(call, z.queries, z.dim));
    hil_pool_run(call->pool, forward_head, call, z.batch * z.heads);
    return HIL_OK;
}

static void backward_head(const hil_op_call *call, const work *w, int64_t b, int64_t h)
{
    sizes z = measure(call);
    float scale = (float)((const hil_attention_attr *)call->attr)->scale;
    for (int64_t t = 0; t < z.queries; ++t) {
        int64_t at = ((b * z.queries + t) * z.heads + h) * z.dim, from = visible_from(call, b, t);
        read_copy(w->q, &call->in[0], at, z.dim);
        read_copy(w->out, &call->out[0], at, z.dim);
        read_copy(w->dout, &call->dout[0], at, z.dim);
        memset(w->dq, 0, (size_t)z.dim * sizeof(float));
        attend(w, from, t + 1, z.dim, scale);
        drop(call, &z, b, h * z.queries + t, w->factor);
        float delta = dot(w->out, w->dout, z.dim);
        for (int64_t s = from; s <= t; ++s) {
            float p = w->score[s], dp = w->factor[s] * dot(w->dout, w->v + s * z.dim, z.dim);
            float ds = scale * p * (dp - delta);
            accumulate(w->dv + s * z.dim, w->dout, p * w->factor[s], z.dim);
            accumulate(w->dk + s * z.dim, w->q, ds, z.dim);
            accumulate(w->dq, w->k + s * z.dim, ds, z.dim);
        }
        if (call->din[0].data) hil_row_write(&call->din[0], at, z.dim, w->dq, call->din_add[0]);
    }
}

/* A task owns one head of keys and values and all the heads of queries that share it. */
static void backward_group(void *context, int64_t task, int thread)
{
    const hil_op_call *call = context;
    sizes z = measure(call);
    int64_t b = task / z.groups, group = task % z.groups, share = z.heads / z.groups;
    work w = thread_work(call->pool, thread, z.queries, z.dim);
    read_head(w.k, &call->in[1], b, group);
    read_head(w.v, &call->in[2], b, group);
    memset(w.dk, 0, (size_t)(z.queries * z.dim) * sizeof(float));
    memset(w.dv, 0, (size_t)(z.queries * z.dim) * sizeof(float));
    for (int64_t h = group * share; h < (group + 1) * share; ++h) backward_head(call, &w, b, h);
    if (call->din[1].data) write_head(&call->din[1], b, group, w.dk, call->din_add[1]);
    if (call->din[2].data) write_head(&call->din[2], b, group, w.dv, call->din_add[2]);
}

static hil_status backward(hil_op_call *call)
{
    sizes z = measure(call);
    HIL_TRY(reserve(call, z.queries, z.dim));
    hil_pool_run(call->pool, backward_group, call, z.batch * z.groups);
    return HIL_OK;
}

const hil_op hil_op_attention = {
    .name = "attention",
    .attr_size = sizeof(hil_attention_attr),
    .keep_in = 15,
    .keep_out = 1,
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

static void cached_head(void *context, int64_t task, int thread)
{
    const hil_op_call *call = context;
    const hil_cached_attr *attr = call->attr;
    sizes z = measure(call);
    int64_t b = task / z.heads, h = task % z.heads, group = h / (z.heads / z.groups);
    int64_t keys = attr->length + z.queries;
    hil_shape shape = {4, {z.batch, attr->capacity, z.groups, z.dim}};
    hil_tensor k = {call->compute, shape, attr->k}, v = {call->compute, shape, attr->v};
    work w = thread_work(call->pool, thread, keys, z.dim);
    for (int64_t s = 0; s < keys; ++s) {
        int64_t at = ((b * attr->capacity + s) * z.groups + group) * z.dim;
        read_copy(w.k + s * z.dim, &k, at, z.dim);
        read_copy(w.v + s * z.dim, &v, at, z.dim);
    }
    for (int64_t t = 0; t < z.queries; ++t) {
        int64_t at = ((b * z.queries + t) * z.heads + h) * z.dim, to = attr->length + t + 1;
        int64_t from = attr->window > 0 && to > attr->window ? to - attr->window : 0;
        read_copy(w.q, &call->in[0], at, z.dim);
        attend(&w, from, to, z.dim, (float)attr->scale);
        memset(w.out, 0, (size_t)z.dim * sizeof(float));
        for (int64_t s = from; s < to; ++s) accumulate(w.out, w.v + s * z.dim, w.score[s], z.dim);
        hil_row_write(&call->out[0], at, z.dim, w.out, false);
    }
}

/* Rows [length, length + T) of the cache. */
static hil_status extend(const hil_op_call *call, const hil_tensor *x, void *cache)
{
    const hil_cached_attr *attr = call->attr;
    sizes z = measure(call);
    int64_t row = z.groups * z.dim;
    hil_tensor to = {call->compute, x->shape, cache};
    HIL_TRY(hil_pool_reserve(call->pool, (size_t)row * sizeof(float)));
    float *buffer = hil_pool_scratch(call->pool, 0);
    for (int64_t b = 0; b < z.batch; ++b)
        for (int64_t t = 0; t < z.queries; ++t)
            hil_row_write(&to, (b * attr->capacity + attr->length + t) * row, row,
                          hil_row_read(x, (b * z.queries + t) * row, row, buffer), false);
    return HIL_OK;
}

static hil_status forward_cached(hil_op_call *call)
{
    const hil_cached_attr *attr = call->attr;
    sizes z = measure(call);
    HIL_TRY(extend(call, &call->in[1], attr->k));
    HIL_TRY(extend(call, &call->in[2], attr->v));
    HIL_TRY(reserve(call, attr->length + z.queries, z.dim));
    hil_pool_run(call->pool, cached_head, call, z.batch * z.heads);
    return HIL_OK;
}

const hil_op hil_op_attention_cached = {
    .name = "attention",
    .attr_size = sizeof(hil_cached_attr),
    .infer = infer_cached,
    .forward = forward_cached,
};
