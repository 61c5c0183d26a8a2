/* join.c - puts columns of several tensors side by side; what has one head is given to all. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

/* Rows of out are the heads of `tokens`. */
typedef struct sizes {
    int64_t tokens, heads, cols;
} sizes;

static int64_t heads_of(const hil_shape *shape)
{
    return shape->ndim > 1 ? shape->dim[shape->ndim - 2] : 1;
}

static sizes measure(const hil_op_call *call)
{
    const hil_shape *out = &call->out[0].shape;
    int64_t heads = heads_of(out), rows = hil_shape_rows(out);
    return (sizes){heads ? rows / heads : 0, heads, hil_shape_cols(out)};
}

/* in[i] has the dimensions of out, but for its columns, and perhaps one head only. */
static bool fits(const hil_shape *x, const hil_shape *out)
{
    if (x->ndim != out->ndim) return false;
    for (int i = 0; i < x->ndim - 2; ++i)
        if (x->dim[i] != out->dim[i]) return false;
    return heads_of(x) == heads_of(out) || heads_of(x) == 1;
}

static hil_status infer(hil_op_call *call)
{
    const hil_join_attr *attr = call->attr;
    for (int i = 0; i < call->ins; ++i) HIL_TRY(hil_infer_float(call, i, 0));
    hil_shape shape = call->in[0].shape;
    int64_t cols = 0, heads = 1;
    for (int i = 0; i < call->ins; ++i) {
        cols += hil_shape_cols(&call->in[i].shape);
        if (heads_of(&call->in[i].shape) != 1) heads = heads_of(&call->in[i].shape);
    }
    if (attr->cols && attr->cols < cols)
        return hil_fail(HIL_ERR_USAGE, "join: inputs of %lld columns do not fit into %lld",
                        (long long)cols, (long long)attr->cols);
    shape.dim[shape.ndim - 1] = attr->cols ? attr->cols : cols;
    if (shape.ndim > 1) shape.dim[shape.ndim - 2] = heads;
    for (int i = 0; i < call->ins; ++i)
        if (!fits(&call->in[i].shape, &shape))
            return hil_fail(HIL_ERR_USAGE, "join: input %d is %s, which does not go with %s", i,
                            hil_infer_shape_text(&call->in[i].shape).text,
                            hil_infer_shape_text(&shape).text);
    hil_infer_out(call, call->compute, &shape);
    return HIL_OK;
}

static void join_token(void *context, int64_t token, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    sizes s = measure(call);
    for (int64_t h = 0; h < s.heads; ++h) {
        int64_t row = token * s.heads + h, at = row * s.cols;
        for (int i = 0; i < call->ins; ++i) {
            int64_t n = hil_shape_cols(&call->in[i].shape);
            bool own = heads_of(&call->in[i].shape) == s.heads;
            hil_row_copy(&call->out[0], at, &call->in[i], (own ? row : token) * n, n, false);
            at += n;
        }
        hil_row_clear(&call->out[0], at, (row + 1) * s.cols - at);
    }
}

static hil_status forward(hil_op_call *call)
{
    hil_pool_run(call->pool, join_token, call, measure(call).tokens);
    return HIL_OK;
}

/* The gradient of what all heads have is the sum over them, rounded once. */
static void add_heads(const hil_op_call *call, int i, int64_t token, int64_t at, float *sum)
{
    sizes s = measure(call);
    int64_t n = hil_shape_cols(&call->in[i].shape);
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t h = 0; h < s.heads; ++h) {
        int64_t from = (token * s.heads + h) * s.cols + at;
        hil_rows()->math.add(sum, sum, hil_row_read(&call->dout[0], from, n, sum + n), n);
    }
    hil_row_write(&call->din[i], token * n, n, sum, call->din_add[i]);
}

static void back_token(void *context, int64_t token, int thread)
{
    const hil_op_call *call = context;
    sizes s = measure(call);
    int64_t at = 0, n;
    for (int i = 0; i < call->ins; ++i, at += n) {
        n = hil_shape_cols(&call->in[i].shape);
        if (!call->din[i].data) continue;
        if (heads_of(&call->in[i].shape) != s.heads) {
            add_heads(call, i, token, at, hil_pool_scratch(call->pool, thread));
            continue;
        }
        for (int64_t row = token * s.heads; row < (token + 1) * s.heads; ++row)
            hil_row_copy(&call->din[i], row * n, &call->dout[0], row * s.cols + at, n,
                         call->din_add[i]);
    }
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    HIL_TRY(hil_pool_reserve(call->pool, (size_t)(2 * s.cols) * sizeof(float)));
    hil_pool_run(call->pool, back_token, call, s.tokens);
    return HIL_OK;
}

const hil_op hil_op_join = {
    .name = "join",
    .attr_size = sizeof(hil_join_attr),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
