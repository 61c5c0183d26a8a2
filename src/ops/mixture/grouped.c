/* grouped.c - a linear layer for each expert, on the rows of x that chose it. */
#include "ops/infer.h"
#include "ops/linear/gemm.h"
#include "ops/linear/operand.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

typedef struct sizes {
    int64_t rows, n, k, experts;
    int64_t tiles; /* of each expert */
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_op_param *w = &call->param[0];
    const hil_grouped_attr *attr = call->attr;
    return (sizes){call->in[0].shape.dim[0], w->rows, w->cols, attr->experts, hil_op_tiles(w)};
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
        begin->shape.dim[0] < s.experts + 1 || s.k != call->in[0].shape.dim[1])
        return hil_fail(HIL_ERR_USAGE,
                        "grouped_linear: input %s for %lld experts does not fit weight %s",
                        hil_infer_shape_text(&call->in[0].shape).text, (long long)s.experts,
                        hil_infer_param_text(w).text);
    hil_infer_out(call, call->compute, &(hil_shape){2, {s.rows, s.n}});
    if (w->fp8) HIL_TRY(hil_infer_fp8(call));
    if (s.tiles > 1) hil_scratch_add(&call->backward_scratch, s.rows * s.k, sizeof(float));
    hil_operands_place(call, false, &call->forward_scratch);
    hil_operands_place(call, true, &call->backward_scratch);
    return HIL_OK;
}

/* What the products read: x and dy, as they are or rounded to 8 bits, and where a tile of the
   weight is rounded to (NULL: it is not). */
typedef struct factors {
    hil_tensor x, dy;
    uint16_t *w;
} factors;

/* A tile: columns of the output, for the rows of x that chose its expert. */
typedef struct part {
    int64_t column, count;
    int64_t row, rows;
} part;

static part tile_part(const hil_op_call *call, const sizes *s, int64_t tile)
{
    const int32_t *begin = (const int32_t *)call->in[1].data + tile / s->tiles;
    int64_t height = call->param[0].tile_rows, column = tile % s->tiles * height;
    int64_t count = s->n - column < height ? s->n - column : height;
    return (part){column, count, begin[0], begin[1] - begin[0]};
}

static void *element(const void *data, hil_dtype dtype, int64_t at)
{
    return (char *)(uintptr_t)data + (size_t)at * hil_dtype_size(dtype);
}

static hil_status forward_part(const hil_op_call *call, const sizes *s, const part *p,
                               const factors *f, const void *tile)
{
    const hil_tensor *x = &f->x, *y = &call->out[0];
    hil_dtype dtype = call->param[0].dtype;
    return hil_gemm_run(
        call->pool,
        &(hil_gemm){.m = p->rows,
                    .n = p->count,
                    .k = s->k,
                    .a = hil_matrix_rows(element(x->data, x->dtype, p->row * s->k), x->dtype, s->k),
                    .b = hil_matrix_transpose(hil_matrix_rows(tile, dtype, s->k)),
                    .c = element(y->data, y->dtype, p->row * s->n + p->column),
                    .c_dtype = y->dtype,
                    .c_stride = s->n});
}

/* dx = dy * weight, to din, or part by part to the fp32 sum. */
static hil_status input_part(const hil_op_call *call, const sizes *s, const part *p,
                             const factors *f, const void *tile)
{
    const hil_tensor *dy = &f->dy;
    hil_tensor dx = call->din[0];
    hil_dtype dtype = call->param[0].dtype;
    bool add = call->din_add[0];
    if (s->tiles > 1) {
        dx = (hil_tensor){HIL_F32, dx.shape, call->scratch};
        add = p->column > 0;
    }
    return hil_gemm_run(call->pool,
                        &(hil_gemm){.m = p->rows,
                                    .n = s->k,
                                    .k = p->count,
                                    .a = {element(dy->data, dy->dtype, p->row * s->n + p->column),
                                          dy->dtype, s->n, 1},
                                    .b = hil_matrix_rows(tile, dtype, s->k),
                                    .c = element(dx.data, dx.dtype, p->row * s->k),
                                    .c_dtype = dx.dtype,
                                    .c_stride = s->k,
                                    .add = add});
}

typedef hil_status part_fn(const hil_op_call *call, const sizes *s, const part *p, const factors *f,
                           const void *tile);

/* Every tile is acquired, in order, whichever experts were chosen. */
static hil_status each_tile(const hil_op_call *call, const sizes *s, const factors *f, part_fn *run)
{
    for (int64_t tile = 0; tile < s->tiles * s->experts; ++tile) {
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        hil_status status = HIL_OK;
        if (!hil_pool_is_dry(call->pool)) {
            part p = tile_part(call, s, tile);
            if (p.rows) {
                w = hil_operand_round(call->pool, HIL_FP8_E4M3, w, p.count * s->k, f->w);
                status = run(call, s, &p, f, w);
            }
        }
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* Rows of experts without weights become zeros. */
static void clear_rest(const hil_op_call *call, const sizes *s, const hil_tensor *x)
{
    if (hil_pool_is_dry(call->pool) || call->in[1].shape.dim[0] == s->experts + 1) return;
    int64_t first = ((const int32_t *)call->in[1].data)[s->experts],
            cols = hil_shape_cols(&x->shape);
    hil_row_clear(x, first * cols, (s->rows - first) * cols);
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    size_t bytes = 0;
    clear_rest(call, &s, &call->out[0]);
    hil_operands in8 = hil_operands_place(call, false, &bytes);
    factors f = {.w = in8.w};
    f.x = hil_operand_tensor(call->pool, HIL_FP8_E4M3, &call->in[0], in8.x);
    return each_tile(call, &s, &f, forward_part);
}

/* The weight's gradient: transposed dy * x; 0 for an expert that no row chose. */
static hil_status weight_part(const hil_op_call *call, const sizes *s, const part *p,
                              const factors *f, float *sum, bool add)
{
    const hil_tensor *dy = &f->dy, *x = &f->x;
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

static hil_status back_weight(const hil_op_call *call, const sizes *s, const factors *f)
{
    for (int64_t tile = 0; tile < s->tiles * s->experts; ++tile) {
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
        hil_status status = HIL_OK;
        if (!hil_pool_is_dry(call->pool)) {
            part p = tile_part(call, s, tile);
            status = weight_part(call, s, &p, f, sum, add);
        }
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    size_t bytes = 0;
    if (s.tiles > 1) hil_scratch_add(&bytes, s.rows * s.k, sizeof(float));
    hil_operands in8 = hil_operands_place(call, true, &bytes);
    factors f = {.w = in8.w};
    f.dy = hil_operand_tensor(call->pool, HIL_FP8_E5M2, &call->dout[0], in8.dy);
    if (call->din[0].data) {
        hil_tensor sum = {HIL_F32, call->din[0].shape, call->scratch};
        if (s.tiles > 1) clear_rest(call, &s, &sum);
        if (s.tiles == 1 && !call->din_add[0]) clear_rest(call, &s, &call->din[0]);
        HIL_TRY(each_tile(call, &s, &f, input_part));
        if (s.tiles > 1)
            hil_row_write_all(call->pool, &call->din[0], call->scratch, call->din_add[0]);
    }
    if (!call->param[0].trainable) return HIL_OK;
    f.x = hil_operand_tensor(call->pool, HIL_FP8_E4M3, &call->in[0], in8.x);
    return back_weight(call, &s, &f);
}

const hil_op hil_op_grouped_linear = {
    .name = "grouped_linear",
    .attr_size = sizeof(hil_grouped_attr),
    .keep_in = 1 | 1 << 1,
    .pure = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
