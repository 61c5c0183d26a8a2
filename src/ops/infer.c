/* infer.c - the checks of shapes and dtypes that operations share. */
#include "ops/infer.h"
#include "ops/rows/rows.h"

#include <stdio.h>

hil_shape_text hil_infer_shape_text(const hil_shape *shape)
{
    hil_shape_text out = {"("};
    size_t used = 1;
    for (int i = 0; i < shape->ndim; ++i)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%lld", i ? ", " : "",
                                 (long long)shape->dim[i]);
    snprintf(out.text + used, sizeof out.text - used, ")");
    return out;
}

hil_shape_text hil_infer_param_text(const hil_op_param *param)
{
    return hil_infer_shape_text(&(hil_shape){2, {param->rows, param->cols}});
}

hil_status hil_infer_float(const hil_op_call *call, int i, int ndim)
{
    const hil_tensor *x = &call->in[i];
    if (x->dtype == HIL_I32)
        return hil_fail(HIL_ERR_USAGE, "%s: input %d is %s, expected floating-point numbers",
                        call->op->name, i, hil_dtype_name(x->dtype));
    if (ndim ? x->shape.ndim != ndim : x->shape.ndim < 1)
        return hil_fail(HIL_ERR_USAGE, "%s: input %d is %s, expected %s%d dimensions",
                        call->op->name, i, hil_infer_shape_text(&x->shape).text,
                        ndim ? "" : "at least ", ndim ? ndim : 1);
    return HIL_OK;
}

hil_status hil_infer_ids(const hil_op_call *call, int i, const hil_shape *like)
{
    const hil_tensor *x = &call->in[i];
    hil_shape want = {2, {like->dim[0], like->dim[1]}};
    if (x->dtype != HIL_I32 || !hil_shape_equal(&x->shape, &want))
        return hil_fail(HIL_ERR_USAGE, "%s: input %d is %s %s, expected int32 %s to go with %s",
                        call->op->name, i, hil_dtype_name(x->dtype),
                        hil_infer_shape_text(&x->shape).text, hil_infer_shape_text(&want).text,
                        hil_infer_shape_text(like).text);
    return HIL_OK;
}

hil_status hil_infer_same(const hil_op_call *call, int i)
{
    if (!hil_shape_equal(&call->in[i].shape, &call->in[0].shape))
        return hil_fail(HIL_ERR_USAGE, "%s: input %d is %s, but input 0 is %s", call->op->name, i,
                        hil_infer_shape_text(&call->in[i].shape).text,
                        hil_infer_shape_text(&call->in[0].shape).text);
    return HIL_OK;
}

hil_status hil_infer_vector(const hil_op_call *call, int i, int64_t count)
{
    const hil_op_param *p = &call->param[i];
    if (p->rows != 1 || p->cols != count || p->tile_rows < 1)
        return hil_fail(HIL_ERR_USAGE, "%s: parameter %d is %s, expected %lld numbers for %s",
                        call->op->name, i, hil_infer_param_text(p).text, (long long)count,
                        hil_infer_shape_text(&call->in[0].shape).text);
    return HIL_OK;
}

hil_status hil_infer_fp8(const hil_op_call *call)
{
    hil_dtype x = call->in[0].dtype, w = call->param[0].dtype;
    if (x == HIL_BF16 && w == HIL_BF16 && call->compute == HIL_BF16) return HIL_OK;
    return hil_fail(HIL_ERR_USAGE, "%s: input is %s, weight is %s; products in fp8 want bf16",
                    call->op->name, hil_dtype_name(x), hil_dtype_name(w));
}

void hil_infer_out(hil_op_call *call, hil_dtype dtype, const hil_shape *shape)
{
    call->outs = 1;
    call->out[0].dtype = dtype;
    call->out[0].shape = *shape;
    call->saveds = 0;
    call->forward_scratch = 0;
    call->backward_scratch = 0;
}

/* Copies all tiles of a parameter, one below the other. */
static hil_status read_tiles(const hil_op_call *call, int param, hil_dtype dtype, void *out)
{
    const hil_op_param *p = &call->param[param];
    size_t row = (size_t)p->cols * hil_dtype_size(dtype);
    for (int64_t tile = 0; tile < hil_op_tiles(p); ++tile) {
        hil_op_rows r = hil_op_tile(p, tile);
        hil_tensor from = {p->dtype, {2, {r.count, p->cols}}, NULL};
        hil_tensor to = {dtype, from.shape, (char *)out + (size_t)r.first * row};
        HIL_TRY(call->source->weight_begin(call->owner, param, tile, (const void **)&from.data));
        hil_status status = hil_op_convert(NULL, call->pool, &to, &from, false);
        call->source->weight_end(call->owner, param, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

hil_status hil_op_vector(const hil_op_call *call, int param, float *out)
{
    return read_tiles(call, param, HIL_F32, out);
}

hil_status hil_op_matrix(const hil_op_call *call, int param, void *out)
{
    return read_tiles(call, param, call->param[param].dtype, out);
}

hil_status hil_op_give_matrix(const hil_op_call *call, int param, const float *from)
{
    const hil_op_param *p = &call->param[param];
    for (int64_t tile = 0; tile < hil_op_tiles(p) && p->trainable; ++tile) {
        hil_op_rows r = hil_op_tile(p, tile);
        hil_tensor sum = {HIL_F32, {2, {r.count, p->cols}}, NULL};
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, param, tile, (float **)&sum.data, &add));
        hil_row_write_all(call->pool, &sum, from + r.first * p->cols, add);
        call->source->gradient_end(call->owner, param, tile);
    }
    return HIL_OK;
}

hil_status hil_op_gather_vectors(const hil_op_call *call, float *const *partial, int64_t blocks,
                                 int64_t cols)
{
    for (int i = 0; i < call->params; ++i) {
        if (!partial[i]) continue;
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, i, 0, &sum, &add));
        hil_row_gather(call->pool, &(hil_gather){sum, partial[i], blocks, cols, add});
        call->source->gradient_end(call->owner, i, 0);
    }
    return HIL_OK;
}
