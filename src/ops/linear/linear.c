/* linear.c - x times the transposed weight, plus bias, one tile of the weight's rows at a time. A
   residual is added before the one rounding; its gradient is dout itself. */
#include "ops/linear/gemm.h"
#include "ops/linear/operand.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

typedef struct sizes {
    int64_t rows, n, k, tiles;
    hil_grid grid;
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_op_param *w = &call->param[0];
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    return (sizes){rows, w->rows, w->cols, hil_op_tiles(w), hil_row_grid(rows)};
}

/* Scratch; NULL: there is no such part. */
typedef struct parts {
    float *bias;    /* forward: (N) */
    float *sum;     /* backward: gradient of x (rows, K) when tiles must be summed */
    float *partial; /* backward: the bias' gradient of each block of rows (blocks, N) */
    hil_operands in8;
    size_t bytes;
} parts;

static float *take(const hil_op_call *call, int64_t count, size_t *bytes)
{
    return (float *)((uintptr_t)call->scratch + hil_scratch_add(bytes, count, sizeof(float)));
}

static parts place(const hil_op_call *call, const sizes *s, bool backward)
{
    parts p = {0};
    bool bias = call->params == 2;
    if (!backward && bias) p.bias = take(call, s->n, &p.bytes);
    if (backward && s->tiles > 1) p.sum = take(call, s->rows * s->k, &p.bytes);
    if (backward && bias) p.partial = take(call, s->grid.blocks * s->n, &p.bytes);
    p.in8 = hil_operands_place(call, backward, &p.bytes);
    return p;
}

static hil_status infer_residual(const hil_op_call *call, const hil_shape *out)
{
    const hil_tensor *r = &call->in[1];
    if (r->dtype != call->compute || !hil_shape_equal(&r->shape, out))
        return hil_fail(HIL_ERR_USAGE, "linear: residual is %s %s, expected %s %s",
                        hil_dtype_name(r->dtype), hil_infer_shape_text(&r->shape).text,
                        hil_dtype_name(call->compute), hil_infer_shape_text(out).text);
    return HIL_OK;
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    if (call->params < 1 || call->params > 2)
        return hil_fail(HIL_ERR_USAGE, "linear: %d parameters, expected 1 or 2", call->params);
    hil_shape shape = call->in[0].shape;
    const hil_op_param *w = &call->param[0];
    if (hil_shape_cols(&shape) != w->cols)
        return hil_fail(HIL_ERR_USAGE, "linear: input %s does not fit weight %s",
                        hil_infer_shape_text(&shape).text, hil_infer_param_text(w).text);
    if (call->params == 2) HIL_TRY(hil_infer_vector(call, 1, w->rows));
    shape.dim[shape.ndim - 1] = w->rows;
    if (call->ins == 2) HIL_TRY(infer_residual(call, &shape));
    if (w->fp8) HIL_TRY(hil_infer_fp8(call));
    hil_infer_out(call, call->compute, &shape);
    sizes s = measure(call);
    call->forward_scratch = place(call, &s, false).bytes;
    call->backward_scratch = place(call, &s, true).bytes;
    return HIL_OK;
}

static void *element(const hil_tensor *x, int64_t at)
{
    return (char *)x->data + (size_t)at * hil_dtype_size(x->dtype);
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    parts part = place(call, &s, false);
    const hil_tensor *y = &call->out[0];
    if (part.bias) HIL_TRY(hil_op_vector(call, 1, part.bias));
    hil_tensor x = hil_operand_tensor(call->pool, HIL_FP8_E4M3, &call->in[0], part.in8.x);
    for (int64_t tile = 0; tile < s.tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        w = hil_operand_round(call->pool, HIL_FP8_E4M3, w, p.count * s.k, part.in8.w);
        hil_status status = hil_gemm_run(
            call->pool,
            &(hil_gemm){.m = s.rows,
                        .n = p.count,
                        .k = s.k,
                        .a = hil_matrix_rows(x.data, x.dtype, s.k),
                        .b = hil_matrix_transpose(hil_matrix_rows(w, call->param[0].dtype, s.k)),
                        .c = element(y, p.first),
                        .c_dtype = y->dtype,
                        .c_stride = s.n,
                        .bias = part.bias ? part.bias + p.first : NULL,
                        .bias_dtype = HIL_F32,
                        .base = call->ins == 2 ? element(&call->in[1], p.first) : NULL});
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* dx = dy * weight: straight to din, or tile by tile into the fp32 sum. */
static hil_status back_input(hil_op_call *call, const sizes *s, const parts *part,
                             const hil_tensor *dy)
{
    const hil_tensor *dx = &call->din[0];
    float *sum = part->sum;
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        const void *w;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &w));
        w = hil_operand_round(call->pool, HIL_FP8_E4M3, w, p.count * s->k, part->in8.w);
        hil_status status = hil_gemm_run(
            call->pool, &(hil_gemm){.m = s->rows,
                                    .n = s->k,
                                    .k = p.count,
                                    .a = {element(dy, p.first), dy->dtype, s->n, 1},
                                    .b = hil_matrix_rows(w, call->param[0].dtype, s->k),
                                    .c = sum ? sum : dx->data,
                                    .c_dtype = sum ? HIL_F32 : dx->dtype,
                                    .c_stride = s->k,
                                    .add = sum ? tile > 0 : call->din_add[0]});
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    if (sum) hil_row_write_all(call->pool, dx, sum, call->din_add[0]);
    return HIL_OK;
}

/* The weight's gradient: transposed dy * x. */
static hil_status back_weight(hil_op_call *call, const sizes *s, const parts *part,
                              const hil_tensor *dy)
{
    hil_tensor x = hil_operand_tensor(call->pool, HIL_FP8_E4M3, &call->in[0], part->in8.x);
    for (int64_t tile = 0; tile < s->tiles; ++tile) {
        hil_op_rows p = hil_op_tile(&call->param[0], tile);
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
        hil_status status =
            hil_gemm_run(call->pool, &(hil_gemm){.m = p.count,
                                                 .n = s->k,
                                                 .k = s->rows,
                                                 .a = {element(dy, p.first), dy->dtype, 1, s->n},
                                                 .b = hil_matrix_rows(x.data, x.dtype, s->k),
                                                 .c = sum,
                                                 .c_dtype = HIL_F32,
                                                 .c_stride = s->k,
                                                 .add = add});
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

typedef struct bias_job {
    const hil_tensor *dy;
    const sizes *sizes;
    float *partial;
} bias_job;

#define PIECE 1024

static void sum_block(void *context, int64_t block, int thread)
{
    (void)thread;
    const bias_job *j = context;
    int64_t n = j->sizes->n, end = hil_grid_end(&j->sizes->grid, block);
    float *sum = j->partial + block * n, buffer[PIECE];
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t r = block * j->sizes->grid.block; r < end; ++r)
        for (int64_t c = 0; c < n; c += PIECE) {
            int64_t count = n - c < PIECE ? n - c : PIECE;
            const float *dy = hil_row_read(j->dy, r * n + c, count, buffer);
            hil_rows()->math.add(sum + c, sum + c, dy, count);
        }
}

static hil_status back_bias(hil_op_call *call, const sizes *s, float *partial)
{
    bias_job j = {&call->dout[0], s, partial};
    hil_pool_run(call->pool, sum_block, &j, s->grid.blocks);
    float *sum;
    bool add;
    HIL_TRY(call->source->gradient_begin(call->owner, 1, 0, &sum, &add));
    hil_row_gather(call->pool, &(hil_gather){sum, partial, s->grid.blocks, s->n, add});
    call->source->gradient_end(call->owner, 1, 0);
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    parts part = place(call, &s, true);
    hil_tensor dy = hil_operand_tensor(call->pool, HIL_FP8_E5M2, &call->dout[0], part.in8.dy);
    if (call->din[0].data) HIL_TRY(back_input(call, &s, &part, &dy));
    if (call->param[0].trainable) HIL_TRY(back_weight(call, &s, &part, &dy));
    if (call->params == 2 && call->param[1].trainable) HIL_TRY(back_bias(call, &s, part.partial));
    return HIL_OK;
}

const hil_op hil_op_linear = {
    .name = "linear",
    .keep_in = 1,
    .keep_trained = 1,
    .pass = 2,
    .once = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
