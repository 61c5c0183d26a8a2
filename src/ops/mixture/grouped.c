/* grouped.c - a linear layer for each expert, on the rows of x that chose it. The weights of all
   experts are one matrix, one below the other; its tiles may hold a part of an expert or several.
 */
#include "ops/infer.h"
#include "ops/linear/gemm.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

typedef struct sizes {
    int64_t rows, n, k, experts, tiles;
    bool cut; /* some expert lies in several tiles */
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_op_param *w = &call->param[0];
    int64_t experts = call->in[1].shape.dim[0] - 1, n = experts > 0 ? w->rows / experts : 0;
    return (sizes){call->in[0].shape.dim[0],
                   n,
                   w->cols,
                   experts,
                   hil_op_tiles(w),
                   w->tile_rows < w->rows && n && w->tile_rows % n};
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 2));
    if (call->params != 1)
        return hil_fail(HIL_ERR_USAGE, "grouped_linear: %d parameters, expected 1", call->params);
    const hil_tensor *begin = &call->in[1];
    const hil_op_param *w = &call->param[0];
    sizes s = measure(call);
    if (begin->dtype != HIL_I32 || begin->shape.ndim != 1 || s.experts < 1 ||
        s.n * s.experts != w->rows || s.k != call->in[0].shape.dim[1])
        return hil_fail(HIL_ERR_USAGE,
                        "grouped_linear: input %s for %lld experts does not fit weight %s",
                        hil_infer_shape_text(&call->in[0].shape).text, (long long)s.experts,
                        hil_infer_param_text(w).text);
    hil_infer_out(call, call->compute, &(hil_shape){2, {s.rows, s.n}});
    if (s.cut) hil_scratch_add(&call->backward_scratch, s.rows * s.k, sizeof(float));
    return HIL_OK;
}

/* The part of a tile that belongs to one expert, and the rows of x that chose the expert. */
typedef struct part {
    int64_t at;            /* first row within the tile */
    int64_t column, count; /* columns of the output */
    int64_t row, rows;     /* of x */
} part;

/* Goes through the parts of a tile, from row `at` of the tile on; false after the last. */
static bool next_part(const hil_op_call *call, const sizes *s, int64_t tile, int64_t at, part *out)
{
    const hil_op_param *w = &call->param[0];
    const int32_t *begin = call->in[1].data;
    int64_t first = tile * w->tile_rows, end = first + w->tile_rows;
    if (end > w->rows) end = w->rows;
    if (hil_pool_is_dry(call->pool) || first + at >= end) return false;
    int64_t expert = (first + at) / s->n, last = (expert + 1) * s->n;
    *out = (part){.at = at,
                  .column = (first + at) % s->n,
                  .count = (last < end ? last : end) - first - at,
                  .row = begin[expert],
                  .rows = begin[expert + 1] - begin[expert]};
    return true;
}

static void *element(const void *data, hil_dtype dtype, int64_t at)
{
    return (char *)(uintptr_t)data + (size_t)at * hil_dtype_size(dtype);
}

static hil_status forward_part(const hil_op_call *call, const sizes *s, const part *p,
                               const void *tile)
{
    const hil_tensor *x = &call->in[0], *y = &call->out[0];
    hil_dtype dtype = call->param[0].dtype;
    const void *w = element(tile, dtype, p->at * s->k);
    return hil_gemm_run(
        call->pool,
        &(hil_gemm){.m = p->rows,
                    .n = p->count,
                    .k = s->k,
                    .a = hil_matrix_rows(element(x->data, x->dtype, p->row * s->k), x->dtype, s->k),
                    .b = hil_matrix_transpose(hil_matrix_rows(w, dtype, s->k)),
                    .c = element(y->data, y->dtype, p->row * s->n + p->column),
                    .c_dtype = y->dtype,
                    .c_stride = s->n});
}

/* dx = dy * weight, to din, or part by part to the fp32 sum. */
static hil_status input_part(const hil_op_call *call, const sizes *s, const part *p,
                             const void *tile)
{
    const hil_tensor *dy = &call->dout[0];
    hil_tensor dx = call->din[0];
    hil_dtype dtype = call->param[0].dtype;
    bool add = call->din_add[0];
    if (s->cut) {
        dx = (hil_tensor){HIL_F32, dx.shape, call->scratch};
        add = p->column > 0;
    }
    return hil_gemm_run(
        call->pool,
        &(hil_gemm){
            .m = p->rows,
            .n = s->k,
            .k = p->count,
            .a = {element(dy->data, dy->dtype, p->row * s->n + p->column), dy->dtype, s->n, 1},
            .b = hil_matrix_rows(element(tile, dtype, p->at * s->k), dtype, s->k),
            .c = element(dx.data, dx.dtype, p->row * s->k),
            .c_dtype = dx.dtype,
            .c_stride = s->k,
            .add = add});
}

typedef hil_status part_fn(const hil_op_call *call, const sizes *s, const part *p,
                           const void *tile);

/* Every tile is acquired, in order, whichever experts were chosen. */
static hil_status each_tile(const hil_op_call *call, const sizes *s, part_fn *run)
{
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        hil_status status = HIL_OK;
        part p;
        for (int64_t at = 0; status == HIL_OK && next_part(call, s, tile, at, &p); at += p.count)
            if (p.rows) status = run(call, s, &p, w);
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    return each_tile(call, &s, forward_part);
}

/* The weight's gradient: transposed dy * x; 0 for an expert that no row chose. */
static hil_status weight_part(const hil_op_call *call, const sizes *s, const part *p, float *sum,
                              bool add)
{
    const hil_tensor *dy = &call->dout[0], *x = &call->in[0];
    if (!p->rows) {
        if (!add) memset(sum, 0, (size_t)(p->count * s->k) * sizeof *sum);
        return HIL_OK;
    }
    return hil_gemm_run(
        call->pool,
        &(hil_gemm){
            .m = p->count,
            .n = s->k,
            .k = p->rows,
            .a = {element(dy->data, dy->dtype, p->row * s->n + p->column), dy->dtype, 1, s->n},
            .b = hil_matrix_rows(element(x->data, x->dtype, p->row * s->k), x->dtype, s->k),
            .c = sum,
            .c_dtype = HIL_F32,
            .c_stride = s->k,
            .add = add});
}

static hil_status back_weight(const hil_op_call *call, const sizes *s)
{
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
        hil_status status = HIL_OK;
        part p;
        for (int64_t at = 0; status == HIL_OK && next_part(call, s, tile, at, &p); at += p.count)
            status = weight_part(call, s, &p, sum + at * s->k, add);
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->din[0].data) {
        HIL_TRY(each_tile(call, &s, input_part));
        if (s.cut) hil_row_write_all(call->pool, &call->din[0], call->scratch, call->din_add[0]);
    }
    return call->param[0].trainable ? back_weight(call, &s) : HIL_OK;
}

const hil_op hil_op_grouped_linear = {
    .name = "grouped_linear",
    .keep_in = 1 | 1 << 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
