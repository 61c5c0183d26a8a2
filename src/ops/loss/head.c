/* head.c - the last linear layer fused with cross-entropy, a chunk of positions at a time.

   Only rows with a target are computed: each chunk gathers them. A chunk without any acquires the
   same tiles as the others, so that the order of tiles does not depend on targets. Scratch, per
   chunk: the numbers of these rows (int32), x (chunk, C) if rows were skipped, logits (chunk, V),
   gradient of x (chunk, C); with a bias, that (V) and ones (chunk). A thread with a cap keeps the
   bounded logits of its row. */
#include "ops/linear/gemm.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

#define LOGIT_BYTES ((int64_t)128 << 20) /* of one chunk */
#define CHUNK_UNIT 64
#define PIECE 1024       /* elements of a row that are processed in the cache */
#define COPY_COUNT 16384 /* elements of a task */

typedef struct job {
    hil_op_call *call;
    int64_t rows, cols, vocab; /* B * T, C, V */
    int64_t chunk;
    int32_t *active; /* the chunk's rows with a target, in order */
    int64_t count;   /* of these rows */
    char *x;         /* of these rows */
    float *logits;   /* overwritten by their gradient, in the compute dtype, in the same rows */
    float *dx;
    float *bias, *ones; /* NULL: there is no bias */
    float cap;
} job;

/* As many rows as the weight has columns: the logits then take no more memory than the weight, and
   reading the weight takes little time compared to the product. */
static int64_t chunk_rows(const hil_op_param *w, int64_t rows)
{
    int64_t chunk = w->cols ? (w->cols + CHUNK_UNIT - 1) / CHUNK_UNIT * CHUNK_UNIT : CHUNK_UNIT;
    int64_t most = LOGIT_BYTES / (int64_t)sizeof(float) / (w->rows ? w->rows : 1);
    most = most < CHUNK_UNIT ? CHUNK_UNIT : most - most % CHUNK_UNIT;
    if (chunk > most) chunk = most;
    return chunk < rows ? chunk : rows;
}

/* A part of the scratch; NULL in infer, which has none yet. */
static void *part(const job *j, size_t *bytes, int64_t count, size_t size)
{
    size_t at = hil_scratch_add(bytes, count, size);
    char *base = j->call->scratch;
    return base ? base + at : NULL;
}

static size_t layout(job *j)
{
    hil_op_call *call = j->call;
    j->rows = hil_shape_rows(&call->in[0].shape);
    j->cols = call->param[0].cols;
    j->vocab = call->param[0].rows;
    j->chunk = chunk_rows(&call->param[0], j->rows);
    size_t bytes = 0;
    j->active = part(j, &bytes, j->chunk, sizeof(int32_t));
    j->x = part(j, &bytes, j->chunk * j->cols, hil_dtype_size(call->in[0].dtype));
    j->logits = part(j, &bytes, j->chunk * j->vocab, sizeof(float));
    if (call->differentiate) j->dx = part(j, &bytes, j->chunk * j->cols, sizeof(float));
    if (call->params == 2) {
        j->bias = part(j, &bytes, j->vocab, sizeof(float));
        j->ones = part(j, &bytes, j->chunk, sizeof(float));
    }
    const hil_head_attr *attr = call->attr;
    j->cap = attr ? (float)attr->cap : 0;
    return bytes;
}

static bool is_weighted(const hil_op_call *call)
{
    const hil_head_attr *attr = call->attr;
    return attr && attr->weighted;
}

/* The gradient of a row's loss. */
static float scale_of(const hil_op_call *call, int64_t row)
{
    if (call->ins == 3) return ((const float *)call->in[2].data)[row];
    return is_weighted(call) ? 1 : call->loss_scale;
}

static int32_t target_of(const hil_op_call *call, int64_t row)
{
    const hil_head_attr *attr = call->attr;
    return hil_targets_id(((const int32_t *)call->in[1].data)[row], attr && attr->prompts);
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 3));
    const hil_shape *x = &call->in[0].shape;
    HIL_TRY(hil_infer_ids(call, 1, x));
    if (call->params < 1 || call->params > 2 || call->param[0].cols != x->dim[2])
        return hil_fail(HIL_ERR_USAGE, "head: input %s does not fit weight %s",
                        hil_infer_shape_text(x).text, hil_infer_param_text(&call->param[0]).text);
    if (call->params == 2) HIL_TRY(hil_infer_vector(call, 1, call->param[0].rows));
    if (is_weighted(call) &&
        (call->param[0].trainable || (call->params == 2 && call->param[1].trainable)))
        return hil_fail(HIL_ERR_USAGE, "head: the weight of a weighted loss must be frozen");
    hil_shape loss = {2, {x->dim[0], x->dim[1]}};
    if (call->ins == 3 && (call->in[2].dtype != HIL_F32 ||
                           hil_shape_count(&call->in[2].shape) != hil_shape_count(&loss)))
        return hil_fail(HIL_ERR_USAGE, "head: the weights of losses must be fp32, one of each");
    hil_infer_out(call, HIL_F32, &loss);
    if (call->differentiate) {
        call->saveds = 1;
        call->saved[0].dtype = call->in[0].dtype;
        call->saved[0].shape = *x;
    }
    call->forward_scratch = layout(&(job){.call = call});
    return HIL_OK;
}

/* Clears the results of rows [first, last) and finds those with a target. */
static void begin_chunk(job *j, int64_t first, int64_t last)
{
    const hil_op_call *call = j->call;
    j->count = 0;
    for (int64_t i = first; i < last; ++i)
        if (target_of(call, i) >= 0) j->active[j->count++] = (int32_t)i;
    if (j->count == last - first) return;
    memset((float *)call->out[0].data + first, 0, (size_t)(last - first) * sizeof(float));
    if (!call->differentiate) return;
    size_t row = (size_t)j->cols * hil_dtype_size(call->saved[0].dtype);
    memset((char *)call->saved[0].data + (size_t)first * row, 0, (size_t)(last - first) * row);
}

/* The active rows of x, in place if no row between them was skipped. */
static hil_matrix chunk_input(const job *j)
{
    const hil_tensor *x = &j->call->in[0];
    size_t bytes = (size_t)j->cols * hil_dtype_size(x->dtype);
    const char *from = x->data;
    if (j->count && j->active[j->count - 1] - j->active[0] + 1 == j->count)
        return hil_matrix_rows(from + (size_t)j->active[0] * bytes, x->dtype, j->cols);
    for (int64_t i = 0; i < j->count; ++i)
        memcpy(j->x + (size_t)i * bytes, from + (size_t)j->active[i] * bytes, bytes);
    return hil_matrix_rows(j->x, x->dtype, j->cols);
}

static int64_t tile_rows(const hil_op_param *w, int64_t tile)
{
    int64_t left = w->rows - tile * w->tile_rows;
    return left < w->tile_rows ? left : w->tile_rows;
}

static hil_status multiply_logits(const job *j, const hil_matrix *x)
{
    hil_op_call *call = j->call;
    const hil_op_param *w = &call->param[0];
    for (int64_t tile = 0; tile < hil_op_tiles(w); ++tile) {
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
        hil_status status = hil_gemm_run(
            call->pool,
            &(hil_gemm){.m = j->count,
                        .n = tile_rows(w, tile),
                        .k = j->cols,
                        .a = *x,
                        .b = hil_matrix_transpose(hil_matrix_rows(data, w->dtype, j->cols)),
                        .c = j->logits + tile * w->tile_rows,
                        .c_dtype = HIL_F32,
                        .c_stride = j->vocab});
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* loss = log(sum of exp) - logit of the target; the gradient replaces the logits. */
static void finish_row(void *context, int64_t i, int thread)
{
    const job *j = context;
    const hil_op_call *call = j->call;
    int64_t row = j->active[i], target = target_of(call, row);
    assert(target < j->vocab);
    float *logits = j->logits + i * j->vocab, *bounded = hil_pool_scratch(call->pool, thread);
    if (j->bias) hil_rows()->math.add(logits, logits, j->bias, j->vocab);
    if (j->cap > 0) {
        hil_rows()->cap.bound(logits, logits, j->cap, j->vocab);
        memcpy(bounded, logits, (size_t)j->vocab * sizeof *bounded);
    }
    float most = hil_rows()->math.max(logits, j->vocab), of_target = logits[target];
    float sum = hil_rows()->math.exp_sum(logits, most, j->vocab);
    ((float *)call->out[0].data)[row] = logf(sum) + (most - of_target);
    if (!call->differentiate) return;
    float scale = scale_of(call, row);
    float factor = scale / sum, at_target = logits[target] * factor - scale;
    if (j->cap > 0) hil_rows()->cap.slope(&at_target, bounded + target, &at_target, j->cap, 1);
    hil_tensor gradient = {.dtype = call->compute, .data = logits};
    float scaled[PIECE];
    for (int64_t at = 0; at < j->vocab; at += PIECE) {
        int64_t n = j->vocab - at < PIECE ? j->vocab - at : PIECE;
        hil_rows()->math.scale(scaled, logits + at, factor, n);
        if (j->cap > 0) hil_rows()->cap.slope(scaled, bounded + at, scaled, j->cap, n);
        hil_row_write(&gradient, at, n, scaled, false);
    }
    hil_row_write(&gradient, target, 1, &at_target, false);
}

static hil_status multiply_gradients(const job *j, const hil_matrix *x)
{
    hil_op_call *call = j->call;
    const hil_op_param *w = &call->param[0];
    int64_t size = (int64_t)hil_dtype_size(call->compute);
    int64_t stride = j->vocab * (int64_t)sizeof(float) / size;
    for (int64_t tile = 0; tile < hil_op_tiles(w); ++tile) {
        hil_matrix dlogits = {(char *)j->logits + tile * w->tile_rows * size, call->compute, stride,
                              1};
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
        hil_status status =
            hil_gemm_run(call->pool, &(hil_gemm){.m = j->count,
                                                 .n = j->cols,
                                                 .k = tile_rows(w, tile),
                                                 .a = dlogits,
                                                 .b = hil_matrix_rows(data, w->dtype, j->cols),
                                                 .c = j->dx,
                                                 .c_dtype = HIL_F32,
                                                 .c_stride = j->cols,
                                                 .add = tile > 0});
        call->source->weight_end(call->owner, 0, tile);
        HIL_TRY(status);
        if (!w->trainable) continue;
        float *sum;
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &sum, &add));
        if (j->count || !add)
            status = hil_gemm_run(call->pool, &(hil_gemm){.m = tile_rows(w, tile),
                                                          .n = j->cols,
                                                          .k = j->count,
                                                          .a = hil_matrix_transpose(dlogits),
                                                          .b = *x,
                                                          .c = sum,
                                                          .c_dtype = HIL_F32,
                                                          .c_stride = j->cols,
                                                          .add = add});
        call->source->gradient_end(call->owner, 0, tile);
        HIL_TRY(status);
    }
    return HIL_OK;
}

/* The bias' gradient: the sums of the columns of the logits' gradients. */
static hil_status add_bias_gradient(const job *j)
{
    hil_op_call *call = j->call;
    if (call->params != 2 || !call->param[1].trainable) return HIL_OK;
    int64_t stride = j->vocab * (int64_t)(sizeof(float) / hil_dtype_size(call->compute));
    float *sum;
    bool add;
    HIL_TRY(call->source->gradient_begin(call->owner, 1, 0, &sum, &add));
    hil_status status = HIL_OK;
    if (j->count || !add)
        status = hil_gemm_run(call->pool,
                              &(hil_gemm){.m = 1,
                                          .n = j->vocab,
                                          .k = j->count,
                                          .a = hil_matrix_rows(j->ones, HIL_F32, j->chunk),
                                          .b = hil_matrix_rows(j->logits, call->compute, stride),
                                          .c = sum,
                                          .c_dtype = HIL_F32,
                                          .c_stride = j->vocab,
                                          .add = add});
    call->source->gradient_end(call->owner, 1, 0);
    return status;
}

/* The bias as fp32, and room for a row of bounded logits. */
static hil_status prepare(const job *j)
{
    if (j->cap > 0) HIL_TRY(hil_pool_reserve(j->call->pool, (size_t)j->vocab * sizeof(float)));
    if (!j->bias) return HIL_OK;
    if (!hil_pool_is_dry(j->call->pool))
        for (int64_t i = 0; i < j->chunk; ++i) j->ones[i] = 1;
    return hil_op_vector(j->call, 1, j->bias);
}

static void save_row(void *context, int64_t i, int thread)
{
    (void)thread;
    const job *j = context;
    hil_row_write(&j->call->saved[0], j->active[i] * j->cols, j->cols, j->dx + i * j->cols, false);
}

static hil_status forward(hil_op_call *call)
{
    job j = {.call = call};
    layout(&j);
    HIL_TRY(prepare(&j));
    for (int64_t first = 0; first < j.rows; first += j.chunk) {
        int64_t last = first + j.chunk < j.rows ? first + j.chunk : j.rows;
        if (!hil_pool_is_dry(call->pool)) begin_chunk(&j, first, last);
        hil_matrix x = chunk_input(&j);
        HIL_TRY(multiply_logits(&j, &x));
        hil_pool_run(call->pool, finish_row, &j, j.count);
        if (!call->differentiate) continue;
        HIL_TRY(multiply_gradients(&j, &x));
        HIL_TRY(add_bias_gradient(&j));
        hil_pool_run(call->pool, save_row, &j, j.count);
    }
    return HIL_OK;
}

static void copy_task(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t left = hil_shape_count(&call->in[0].shape) - task * COPY_COUNT;
    hil_row_copy(&call->din[0], task * COPY_COUNT, &call->saved[0], task * COPY_COUNT,
                 left < COPY_COUNT ? left : COPY_COUNT, call->din_add[0]);
}

/* The gradient of one row of x: what forward saved, times the gradient of the row's loss. */
static void weigh_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t cols = call->in[0].shape.dim[2];
    float weight = ((const float *)call->dout[0].data)[row], numbers[PIECE];
    for (int64_t at = 0; at < cols; at += PIECE) {
        int64_t n = cols - at < PIECE ? cols - at : PIECE;
        const float *saved = hil_row_read(&call->saved[0], row * cols + at, n, numbers);
        hil_rows()->math.scale(numbers, saved, weight, n);
        hil_row_write(&call->din[0], row * cols + at, n, numbers, call->din_add[0]);
    }
}

static hil_status backward(hil_op_call *call)
{
    int64_t count = hil_shape_count(&call->in[0].shape);
    if (!call->din[0].data) return HIL_OK;
    if (is_weighted(call))
        hil_pool_run(call->pool, weigh_row, call, hil_shape_rows(&call->in[0].shape));
    else
        hil_pool_run(call->pool, copy_task, call, (count + COPY_COUNT - 1) / COPY_COUNT);
    return HIL_OK;
}

const hil_op hil_op_head = {
    .name = "head",
    .attr_size = sizeof(hil_head_attr),
    .loss = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
