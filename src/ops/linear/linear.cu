/* linear.cu - x times the transposed weight, plus bias and residual, one tile of the weight's rows
   at a time. */
#include "ops/cuda_columns.h"
#include "ops/linear/matmul_cuda.h"
#include "ops/linear/narrow_cuda.h"

/* Scratch. Forward: bias in the output's dtype (N). Backward: gradient of x (rows, K) when tiles
   must be summed, and the bias' gradient of each block of rows (blocks, N). */
typedef struct sizes {
    int64_t rows, n, k, tiles;
    hil_columns columns; /* of the output */
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_op_param *w = &call->param[0];
    sizes s = {hil_shape_rows(&call->in[0].shape), w->rows, w->cols, hil_op_tiles(w)};
    s.columns = hil_columns_of(s.rows, s.n);
    return s;
}

/* Whether it is the product with an adapter's B, which has kernels of its own. */
static bool is_narrow(const hil_op_call *call, const sizes *s)
{
    return call->params == 1 && s->tiles == 1 &&
           hil_cuda_narrow_suits(call->device, call->param[0].dtype, s->rows, s->n, s->k);
}

/* Whether both gradients are computed at once. */
static bool joins_gradients(const hil_op_call *call, const sizes *s)
{
    return call->param[0].trainable && is_narrow(call, s);
}

static hil_status infer(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->in[0].dtype != call->param[0].dtype || call->compute != call->param[0].dtype)
        return hil_fail(HIL_ERR_USAGE, "linear: input is %s, weight is %s; a GPU wants both alike",
                        hil_dtype_name(call->in[0].dtype), hil_dtype_name(call->param[0].dtype));
    if (call->params == 2) hil_scratch_add(&call->forward_scratch, s.n, sizeof(float));
    if (s.tiles > 1) hil_scratch_add(&call->backward_scratch, s.rows * s.k, sizeof(float));
    if (call->params == 2)
        hil_scratch_add(&call->backward_scratch, s.columns.blocks * s.n, sizeof(float));
    if (joins_gradients(call, &s)) call->backward_scratch += hil_cuda_narrow_bytes(s.rows, s.n);
    return HIL_OK;
}

static void *element(const hil_tensor *x, int64_t at)
{
    return (char *)x->data + (size_t)at * hil_dtype_size(x->dtype);
}

static hil_status copy_bias(const hil_op_call *call, int64_t n)
{
    const void *data;
    HIL_TRY(call->source->weight_begin(call->owner, 1, 0, &data));
    hil_tensor to = {call->out[0].dtype, {1, {n}}, call->scratch};
    hil_tensor from = {call->param[1].dtype, {1, {n}}, (void *)(uintptr_t)data};
    hil_status status = hil_op_cuda_convert(call->device, &to, &from, false);
    call->source->weight_end(call->owner, 1, 0);
    return status;
}

/* Of a narrow weight, with a residual. */
static hil_status add_narrow(hil_op_call *call, const sizes *s)
{
    hil_cuda_narrow job = {s->rows, s->n, s->k, NULL, NULL, call->in[0].data, NULL};
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &job.w));
    hil_status status =
        hil_cuda_narrow_add(call->device, &job, call->in[1].data, call->out[0].data);
    call->source->weight_end(call->owner, 0, 0);
    return status;
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->ins == 2 && is_narrow(call, &s)) return add_narrow(call, &s);
    const hil_tensor *x = &call->in[0], *y = &call->out[0];
    hil_tensor bias = {y->dtype, {1, {s.n}}, call->scratch};
    if (call->params == 2) HIL_TRY(copy_bias(call, s.n));
    for (int64_t tile = 0; tile < s.tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        hil_cuda_matmul product = {.m = s.rows,
                                   .n = p.count,
                                   .k = s.k,
                                   .dtype = x->dtype,
                                   .a = {x->data, s.k, false},
                                   .b = {w, s.k, true},
                                   .c = element(y, p.first),
                                   .c_dtype = y->dtype,
                                   .c_stride = s.n,
                                   .bias = call->params == 2 ? element(&bias, p.first) : NULL,
                                   .base = call->ins == 2 ? element(&call->in[1], p.first) : NULL};
        hil_status status = hil_cuda_matmul_run(call->device, &product);
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* dx = dy * weight: straight to din, or tile by tile into the fp32 sum. */
static hil_status back_input(hil_op_call *call, const sizes *s, float *sum)
{
    const hil_tensor *dy = &call->dout[0], *dx = &call->din[0];
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        hil_cuda_matmul product = {.m = s->rows,
                                   .n = s->k,
                                   .k = p.count,
                                   .dtype = dy->dtype,
                                   .a = {element(dy, p.first), s->n, false},
                                   .b = {w, s->k, false},
                                   .c = sum ? sum : dx->data,
                                   .c_dtype = sum ? HIL_F32 : dx->dtype,
                                   .c_stride = s->k,
                                   .add = sum ? tile > 0 : call->din_add[0]};
        hil_status status = hil_cuda_matmul_run(call->device, &product);
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    if (!sum) return HIL_OK;
    hil_tensor whole = {HIL_F32, dx->shape, sum};
    return hil_op_cuda_convert(call->device, dx, &whole, call->din_add[0]);
}

/* The weight's gradient: transposed dy * x. */
static hil_status back_weight(hil_op_call *call, const sizes *s)
{
    const hil_tensor *dy = &call->dout[0], *x = &call->in[0];
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
        hil_cuda_matmul product = {.m = p.count,
                                   .n = s->k,
                                   .k = s->rows,
                                   .dtype = x->dtype,
                                   .a = {element(dy, p.first), s->n, true},
                                   .b = {x->data, s->k, false},
                                   .c = sum,
                                   .c_dtype = HIL_F32,
                                   .c_stride = s->k,
                                   .add = add};
        hil_status status = hil_cuda_matmul_run(call->device, &product);
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static hil_status back_bias(hil_op_call *call, const sizes *s, float *partial)
{
    HIL_TRY(hil_columns_run<false>(call->device, partial,
                                   {"linear bias", hil_view_of(&call->dout[0])}, s->columns));
    return hil_columns_give(call, 1, partial, s->columns);
}

/* Of a narrow weight. */
static hil_status back_both(hil_op_call *call, const sizes *s)
{
    hil_cuda_narrow job = {s->rows,          s->n,         s->k, call->dout[0].data, NULL,
                           call->in[0].data, call->scratch};
    float *sum;
    bool add;
    HIL_TRY(call->source->weight_begin(call->owner, 0, 0, &job.w));
    hil_status status = hil_cuda_narrow_run(call->device, &job);
    call->source->weight_end(call->owner, 0, 0);
    HIL_TRY(status);
    HIL_TRY(hil_cuda_narrow_input(call->device, &job, call->din[0].data, call->din_add[0]));
    HIL_TRY(call->source->gradient_begin(call->owner, 0, 0, &sum, &add));
    status = hil_cuda_narrow_weight(call->device, &job, sum, add);
    call->source->gradient_end(call->owner, 0, 0);
    return status;
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    size_t at = 0;
    float *sum = NULL;
    if (call->din[0].data && joins_gradients(call, &s)) return back_both(call, &s);
    if (s.tiles > 1) {
        sum = (float *)call->scratch;
        hil_scratch_add(&at, s.rows * s.k, sizeof(float));
    }
    if (call->din[0].data) HIL_TRY(back_input(call, &s, sum));
    if (call->param[0].trainable) HIL_TRY(back_weight(call, &s));
    if (call->params == 2 && call->param[1].trainable)
        HIL_TRY(back_bias(call, &s, (float *)hil_scratch_at(call, at)));
    return HIL_OK;
}

const hil_op_kernel hil_cuda_linear = {
    .op = &hil_op_linear, .infer = infer, .forward = forward, .backward = backward};
