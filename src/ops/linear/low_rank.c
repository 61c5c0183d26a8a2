/* low_rank.c - x times the transposes of a few small matrices, scaled. */
#include "ops/linear/low_rank.h"

#include "ops/linear/gemm.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    if (call->params < 1)
        return hil_fail(HIL_ERR_USAGE, "low rank: no matrices, expected 1 to %d", HIL_OP_PARAMS);
    hil_shape shape = call->in[0].shape;
    int64_t cols = hil_shape_cols(&shape);
    call->outs = call->params;
    call->saveds = 0;
    for (int i = 0; i < call->params; ++i) {
        const hil_op_param *p = &call->param[i];
        if (p->cols != cols || p->dtype != call->param[0].dtype)
            return hil_fail(HIL_ERR_USAGE, "low rank: input %s does not fit matrix %s",
                            hil_infer_shape_text(&call->in[0].shape).text,
                            hil_infer_param_text(p).text);
        shape.dim[shape.ndim - 1] = p->rows;
        call->out[i] = (hil_tensor){call->compute, shape, NULL};
    }
    call->scratch = NULL;
    call->forward_scratch = hil_low_rank_of(call, false).bytes;
    call->backward_scratch = hil_low_rank_of(call, true).bytes;
    return HIL_OK;
}

static hil_status join_matrices(const hil_op_call *call, const hil_low_rank *l)
{
    size_t row = (size_t)l->k * hil_dtype_size(call->param[0].dtype);
    for (int i = 0; i < call->params; ++i)
        HIL_TRY(hil_op_matrix(call, i, l->joined + (size_t)l->first[i] * row));
    return HIL_OK;
}

/* Scales rows of the results, or of their gradients. */
typedef struct scaling {
    const hil_op_call *call;
    const hil_low_rank *sizes;
    hil_grid grid;
    bool backward;
} scaling;

/* Of one row and matrix, `width` numbers. */
static void scale_part(const scaling *s, int64_t row, int i, float *buffer)
{
    const hil_op_call *call = s->call;
    const hil_low_rank *l = s->sizes;
    float factor = (float)((const hil_low_rank_attr *)call->attr)->scale[i];
    int64_t n = call->param[i].rows, joined = row * l->width + l->first[i];
    hil_tensor scaled = {HIL_F32, {2, {l->rows, l->width}}, l->scaled};
    const hil_tensor *to = s->backward ? &scaled : &call->out[i];
    const float *from = l->product + joined;
    if (s->backward && call->dout[i].data)
        from = hil_row_read(&call->dout[i], row * n, n, buffer);
    else if (s->backward)
        from = memset(buffer, 0, (size_t)n * sizeof *buffer);
    hil_rows()->math.scale(buffer, from, factor, n);
    hil_row_write(to, s->backward ? joined : row * n, n, buffer, false);
}

static void scale_block(void *context, int64_t block, int thread)
{
    const scaling *s = context;
    float *buffer = hil_pool_scratch(s->call->pool, thread);
    for (int64_t r = block * s->grid.block; r < hil_grid_end(&s->grid, block); ++r)
        for (int i = 0; i < s->call->params; ++i) scale_part(s, r, i, buffer);
}

static hil_status scale_rows(const hil_op_call *call, const hil_low_rank *l, bool backward)
{
    scaling s = {call, l, hil_row_grid(l->rows), backward};
    HIL_TRY(hil_pool_reserve(call->pool, sizeof(float) * (size_t)(l->width + HIL_LANES)));
    hil_pool_run(call->pool, scale_block, &s, s.grid.blocks);
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    hil_low_rank l = hil_low_rank_of(call, false);
    const hil_tensor *x = &call->in[0];
    HIL_TRY(join_matrices(call, &l));
    HIL_TRY(hil_gemm_run(call->pool, &(hil_gemm){.m = l.rows,
                                                 .n = l.width,
                                                 .k = l.k,
                                                 .a = hil_matrix_rows(x->data, x->dtype, l.k),
                                                 .b = hil_matrix_transpose(hil_matrix_rows(
                                                     l.joined, call->param[0].dtype, l.k)),
                                                 .c = l.product,
                                                 .c_dtype = HIL_F32,
                                                 .c_stride = l.width}));
    return scale_rows(call, &l, false);
}

static hil_status back_input(const hil_op_call *call, const hil_low_rank *l)
{
    hil_dtype dtype = call->param[0].dtype;
    HIL_TRY(join_matrices(call, l));
    return hil_gemm_run(call->pool, &(hil_gemm){.m = l->rows,
                                                .n = l->k,
                                                .k = l->width,
                                                .a = hil_matrix_rows(l->scaled, HIL_F32, l->width),
                                                .b = hil_matrix_rows(l->joined, dtype, l->k),
                                                .c = call->din[0].data,
                                                .c_dtype = call->din[0].dtype,
                                                .c_stride = l->k,
                                                .add = call->din_add[0]});
}

static hil_status back_matrices(const hil_op_call *call, const hil_low_rank *l)
{
    const hil_tensor *x = &call->in[0];
    HIL_TRY(hil_gemm_run(call->pool, &(hil_gemm){.m = l->width,
                                                 .n = l->k,
                                                 .k = l->rows,
                                                 .a = {l->scaled, HIL_F32, 1, l->width},
                                                 .b = hil_matrix_rows(x->data, x->dtype, l->k),
                                                 .c = l->product,
                                                 .c_dtype = HIL_F32,
                                                 .c_stride = l->k}));
    for (int i = 0; i < call->params; ++i)
        HIL_TRY(hil_op_give_matrix(call, i, l->product + l->first[i] * l->k));
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    hil_low_rank l = hil_low_rank_of(call, true);
    HIL_TRY(scale_rows(call, &l, true));
    if (call->din[0].data) HIL_TRY(back_input(call, &l));
    return hil_low_rank_trains(call) ? back_matrices(call, &l) : HIL_OK;
}

const hil_op hil_op_low_rank = {
    .name = "low rank",
    .attr_size = sizeof(hil_low_rank_attr),
    .keep_in = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
