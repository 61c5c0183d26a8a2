/* gated.c - SwiGLU of two products with adapters, and the first product of the next adapter, a few
   rows at a time. */
#include "ops/linear/gated.h"

#include "ops/elements/elements.h"
#include "ops/linear/gemm.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

#define CHUNK 64                 /* rows */
#define LEAST ((int64_t)1 << 22) /* elements of the gate that are worth it */

bool hil_gated_suits(hil_dtype compute, int64_t rows, int64_t n, const int64_t rank[3])
{
    for (int i = 0; i < 3; ++i)
        if (rank[i] < 2 || rank[i] > 16 || rank[i] % 2) return false;
    return compute == HIL_BF16 && rows % 32 == 0 && n % 64 == 0 && rows * n >= LEAST;
}

/* fp32 numbers of a chunk: rows x n each, and `z` of rows x rank. */
typedef struct chunk {
    float *gate, *up, *dy, *dgate, *dup, *y, *z;
    size_t bytes; /* of scratch, with the matrices */
} chunk;

static chunk chunk_of(const hil_op_call *call, const hil_gated *g, bool backward)
{
    chunk c = {.bytes = g->bytes};
    char *scratch = call->scratch;
    float **const all[] = {&c.gate, &c.up, &c.y, &c.dy, &c.dgate, &c.dup};
    for (int i = 0; i < (backward ? 6 : 2); ++i)
        *all[i] = (float *)(scratch + hil_scratch_add(&c.bytes, CHUNK * g->n, sizeof(float)));
    c.z = (float *)(scratch + hil_scratch_add(&c.bytes, CHUNK * g->rank[2], sizeof(float)));
    return c;
}

static hil_status infer(hil_op_call *call)
{
    if (call->ins != 4 || call->params != 3)
        return hil_fail(HIL_ERR_USAGE, "gated: %d inputs and %d parameters, expected 4 and 3",
                        call->ins, call->params);
    for (int i = 0; i < 4; ++i) HIL_TRY(hil_infer_float(call, i, 0));
    HIL_TRY(hil_infer_same(call, 1));
    hil_shape shape = call->in[0].shape;
    for (int i = 0; i < 3; ++i) {
        const hil_op_param *p = &call->param[i];
        hil_shape factor = shape;
        factor.dim[shape.ndim - 1] = p->cols;
        bool fits = i < 2 ? p->rows == hil_shape_cols(&shape) &&
                                hil_shape_equal(&call->in[2 + i].shape, &factor)
                          : p->cols == hil_shape_cols(&shape);
        if (!fits)
            return hil_fail(HIL_ERR_USAGE, "gated: matrix %d, %s, does not fit %s", i,
                            hil_infer_param_text(p).text, hil_infer_shape_text(&shape).text);
    }
    hil_infer_out(call, call->compute, &shape);
    shape.dim[shape.ndim - 1] = call->param[2].rows;
    call->out[1] = (hil_tensor){call->compute, shape, NULL};
    call->outs = 2;
    call->scratch = NULL;
    hil_gated forward = hil_gated_of(call, false), backward = hil_gated_of(call, true);
    call->forward_scratch = chunk_of(call, &forward, false).bytes;
    call->backward_scratch = chunk_of(call, &backward, true).bytes;
    return HIL_OK;
}

static hil_status copy_matrices(const hil_op_call *call, const hil_gated *g)
{
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_op_matrix(call, i, g->matrix[i]));
    return HIL_OK;
}

/* Rows of a tensor, or of a chunk. */
typedef struct span {
    int64_t first, count;
} span;

static hil_tensor rows_of(const hil_tensor *x, span s)
{
    int64_t cols = hil_shape_cols(&x->shape);
    char *data = (char *)x->data + (size_t)(s.first * cols) * hil_dtype_size(x->dtype);
    return (hil_tensor){x->dtype, {2, {s.count, cols}}, data};
}

static hil_tensor floats(float *data, int64_t rows, int64_t cols)
{
    return (hil_tensor){HIL_F32, {2, {rows, cols}}, data};
}

/* out (rows x n) = in[i] + in[2 + i] B', in fp32. */
static hil_status add_adapter(const hil_op_call *call, const hil_gated *g, int i, span s,
                              float *out)
{
    hil_tensor base = rows_of(&call->in[i], s), h = rows_of(&call->in[2 + i], s);
    hil_tensor to = floats(out, s.count, g->n);
    HIL_TRY(hil_op_convert(NULL, call->pool, &to, &base, false));
    return hil_gemm_run(call->pool,
                        &(hil_gemm){.m = s.count,
                                    .n = g->n,
                                    .k = g->rank[i],
                                    .a = hil_matrix_rows(h.data, h.dtype, g->rank[i]),
                                    .b = hil_matrix_transpose(hil_matrix_rows(
                                        g->matrix[i], call->param[i].dtype, g->rank[i])),
                                    .c = out,
                                    .c_dtype = HIL_F32,
                                    .c_stride = g->n,
                                    .add = true});
}

static void gate_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                       float *const *out)
{
    (void)job, (void)at;
    hil_rows()->activation.swiglu(out[0], in[0], in[1], n);
}

static void back_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                       float *const *out)
{
    (void)job, (void)at;
    hil_rows()->activation.swiglu_back(out, in, n);
}

static void scale_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                        float *const *out)
{
    (void)at;
    const hil_gated_attr *attr = job->call->attr;
    hil_rows()->math.scale(out[0], in[0], (float)attr->scale, n);
}

static void scale(const hil_op_call *call, const hil_tensor *to, const hil_tensor *from)
{
    hil_elements_run(&(hil_elements){.piece = scale_piece,
                                     .call = call,
                                     .count = hil_shape_count(&to->shape),
                                     .ins = 1,
                                     .outs = 1,
                                     .in = {*from},
                                     .out = {*to}});
}

/* Both sums with their adapters, and y = silu(gate) * up, rounded to y's dtype. */
static hil_status gate_rows(const hil_op_call *call, const hil_gated *g, const chunk *c, span s,
                            const hil_tensor *y)
{
    HIL_TRY(add_adapter(call, g, 0, s, c->gate));
    HIL_TRY(add_adapter(call, g, 1, s, c->up));
    hil_elements_run(
        &(hil_elements){.piece = gate_piece,
                        .call = call,
                        .count = s.count * g->n,
                        .ins = 2,
                        .outs = 1,
                        .in = {floats(c->gate, s.count, g->n), floats(c->up, s.count, g->n)},
                        .out = {*y}});
    return HIL_OK;
}

static hil_status forward_rows(const hil_op_call *call, const hil_gated *g, const chunk *c, span s)
{
    hil_tensor y = rows_of(&call->out[0], s), z = rows_of(&call->out[1], s);
    hil_tensor product = floats(c->z, s.count, g->rank[2]);
    HIL_TRY(gate_rows(call, g, c, s, &y));
    HIL_TRY(hil_gemm_run(call->pool, &(hil_gemm){.m = s.count,
                                                 .n = g->rank[2],
                                                 .k = g->n,
                                                 .a = hil_matrix_rows(y.data, y.dtype, g->n),
                                                 .b = hil_matrix_transpose(hil_matrix_rows(
                                                     g->matrix[2], call->param[2].dtype, g->n)),
                                                 .c = product.data,
                                                 .c_dtype = HIL_F32,
                                                 .c_stride = g->rank[2]}));
    scale(call, &z, &product);
    return HIL_OK;
}

static span next_rows(const hil_gated *g, span s)
{
    int64_t first = s.first + s.count, left = g->rows - first;
    return (span){first, left < CHUNK ? left : CHUNK};
}

static hil_status forward(hil_op_call *call)
{
    hil_gated g = hil_gated_of(call, false);
    chunk c = chunk_of(call, &g, false);
    HIL_TRY(copy_matrices(call, &g));
    if (hil_pool_is_dry(call->pool)) return HIL_OK;
    for (span s = next_rows(&g, (span){0, 0}); s.count > 0; s = next_rows(&g, s))
        HIL_TRY(forward_rows(call, &g, &c, s));
    return HIL_OK;
}

/* dy, plus what comes back from z: c->dy; and the scaled gradient of z. */
static hil_status gather_gradient(const hil_op_call *call, const hil_gated *g, const chunk *c,
                                  span s)
{
    hil_tensor dy = rows_of(&call->dout[0], s), dz = rows_of(&call->dout[1], s);
    hil_tensor sum = floats(c->dy, s.count, g->n), scaled = floats(c->z, s.count, g->rank[2]);
    memset(scaled.data, 0, hil_tensor_bytes(&scaled));
    if (call->dout[1].data) scale(call, &scaled, &dz);
    if (call->dout[0].data)
        HIL_TRY(hil_op_convert(NULL, call->pool, &sum, &dy, false));
    else
        memset(sum.data, 0, hil_tensor_bytes(&sum));
    return hil_gemm_run(call->pool,
                        &(hil_gemm){.m = s.count,
                                    .n = g->n,
                                    .k = g->rank[2],
                                    .a = hil_matrix_rows(scaled.data, HIL_F32, g->rank[2]),
                                    .b = hil_matrix_rows(g->matrix[2], call->param[2].dtype, g->n),
                                    .c = sum.data,
                                    .c_dtype = HIL_F32,
                                    .c_stride = g->n,
                                    .add = true});
}

/* Of the gate or of up, whose gradient is `d`: that of its base, of its factor and of its B. */
static hil_status back_adapter(const hil_op_call *call, const hil_gated *g, int i, span s, float *d)
{
    hil_tensor h = rows_of(&call->in[2 + i], s), grad = floats(d, s.count, g->n);
    if (call->din[i].data) {
        hil_tensor base = rows_of(&call->din[i], s);
        HIL_TRY(hil_op_convert(NULL, call->pool, &base, &grad, call->din_add[i]));
    }
    int64_t rank = g->rank[i];
    if (call->din[2 + i].data)
        HIL_TRY(hil_gemm_run(
            call->pool, &(hil_gemm){.m = s.count,
                                    .n = rank,
                                    .k = g->n,
                                    .a = hil_matrix_rows(d, HIL_F32, g->n),
                                    .b = hil_matrix_rows(g->matrix[i], call->param[i].dtype, rank),
                                    .c = rows_of(&call->din[2 + i], s).data,
                                    .c_dtype = call->din[2 + i].dtype,
                                    .c_stride = rank,
                                    .add = call->din_add[2 + i]}));
    return hil_gemm_run(call->pool, &(hil_gemm){.m = g->n,
                                                .n = rank,
                                                .k = s.count,
                                                .a = {d, HIL_F32, 1, g->n},
                                                .b = hil_matrix_rows(h.data, h.dtype, rank),
                                                .c = g->sum[i],
                                                .c_dtype = HIL_F32,
                                                .c_stride = rank,
                                                .add = s.first > 0});
}

static hil_status backward_rows(const hil_op_call *call, const hil_gated *g, const chunk *c, span s)
{
    hil_tensor y = {call->compute, {2, {s.count, g->n}}, c->y};
    HIL_TRY(gate_rows(call, g, c, s, &y));
    HIL_TRY(gather_gradient(call, g, c, s));
    hil_elements_run(
        &(hil_elements){.piece = back_piece,
                        .call = call,
                        .count = s.count * g->n,
                        .ins = 3,
                        .outs = 2,
                        .in = {floats(c->gate, s.count, g->n), floats(c->up, s.count, g->n),
                               floats(c->dy, s.count, g->n)},
                        .out = {floats(c->dgate, s.count, g->n), floats(c->dup, s.count, g->n)}});
    HIL_TRY(back_adapter(call, g, 0, s, c->dgate));
    HIL_TRY(back_adapter(call, g, 1, s, c->dup));
    return hil_gemm_run(call->pool, &(hil_gemm){.m = g->rank[2],
                                                .n = g->n,
                                                .k = s.count,
                                                .a = {c->z, HIL_F32, 1, g->rank[2]},
                                                .b = hil_matrix_rows(y.data, y.dtype, g->n),
                                                .c = g->sum[2],
                                                .c_dtype = HIL_F32,
                                                .c_stride = g->n,
                                                .add = s.first > 0});
}

static hil_status backward(hil_op_call *call)
{
    hil_gated g = hil_gated_of(call, true);
    chunk c = chunk_of(call, &g, true);
    HIL_TRY(copy_matrices(call, &g));
    if (!hil_pool_is_dry(call->pool))
        for (span s = next_rows(&g, (span){0, 0}); s.count > 0; s = next_rows(&g, s))
            HIL_TRY(backward_rows(call, &g, &c, s));
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_op_give_matrix(call, i, g.sum[i]));
    return HIL_OK;
}

const hil_op hil_op_gated = {
    .name = "gated",
    .attr_size = sizeof(hil_gated_attr),
    .keep_in = 15,
    .reuse = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
