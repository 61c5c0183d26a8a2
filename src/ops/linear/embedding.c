/* embedding.c - rows of a table by id. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

#define TASK_ROWS 16
#define TASK_COLS 64

static hil_status infer(hil_op_call *call)
{
    const hil_tensor *ids = &call->in[0];
    if (ids->dtype != HIL_I32 || ids->shape.ndim != 2)
        return hil_fail(HIL_ERR_USAGE, "embedding: input is %s %s, expected int32 (B, T)",
                        hil_dtype_name(ids->dtype), hil_infer_shape_text(&ids->shape).text);
    if (call->params != 1)
        return hil_fail(HIL_ERR_USAGE, "embedding: %d parameters, expected 1", call->params);
    hil_shape shape = {3, {ids->shape.dim[0], ids->shape.dim[1], call->param[0].cols}};
    hil_infer_out(call, call->compute, &shape);
    return HIL_OK;
}

/* One tile of the table: rows [first, last). */
typedef struct job {
    const hil_op_call *call;
    hil_tensor table;
    float *sum;
    int64_t first, last;
} job;

/* What is added to ids. */
static int64_t shift_of(const hil_op_call *call)
{
    const hil_embedding_attr *attr = call->attr;
    return attr ? attr->shift : 0;
}

/* The row of the table at place r. */
static int64_t row_at(const hil_op_call *call, int64_t r)
{
    const int32_t *ids = call->in[0].data;
    return ids[r] + shift_of(call);
}

static job tile_job(const hil_op_call *call, int64_t tile)
{
    const hil_op_param *p = &call->param[0];
    int64_t first = tile * p->tile_rows, last = first + p->tile_rows;
    if (last > p->rows) last = p->rows;
    return (job){.call = call, .table = {.dtype = p->dtype}, .first = first, .last = last};
}

static void copy_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const job *j = context;
    const hil_op_call *call = j->call;
    int64_t count = hil_shape_count(&call->in[0].shape), cols = call->param[0].cols;
    for (int64_t r = task * TASK_ROWS; r < (task + 1) * TASK_ROWS && r < count; ++r) {
        int64_t row = row_at(call, r);
        if (row < j->first || row >= j->last) continue;
        hil_row_copy(&call->out[0], r * cols, &j->table, (row - j->first) * cols, cols, false);
    }
}

static hil_status check_ids(const hil_op_call *call, int64_t count)
{
    int64_t shift = shift_of(call);
    for (int64_t r = 0; r < count; ++r) {
        int64_t row = row_at(call, r);
        if (row < 0 || row >= call->param[0].rows)
            return hil_fail(HIL_ERR_INPUT, "embedding: id %lld is outside the table of %lld rows",
                            (long long)(row - shift), (long long)(call->param[0].rows - shift));
    }
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    int64_t count = hil_shape_count(&call->in[0].shape);
    if (!hil_pool_is_dry(call->pool)) HIL_TRY(check_ids(call, count));
    for (int64_t tile = 0; tile < hil_op_tiles(&call->param[0]); ++tile) {
        job j = tile_job(call, tile);
        const void *data;
        HIL_TRY(call->source->weight_begin(call->owner, 0, tile, &data));
        j.table.data = (void *)(uintptr_t)data;
        hil_pool_run(call->pool, copy_rows, &j, (count + TASK_ROWS - 1) / TASK_ROWS);
        call->source->weight_end(call->owner, 0, tile);
    }
    return HIL_OK;
}

static void zero_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const job *j = context;
    int64_t cols = j->call->param[0].cols, left = j->last - j->first - task * TASK_ROWS;
    if (left > TASK_ROWS) left = TASK_ROWS;
    memset(j->sum + task * TASK_ROWS * cols, 0, (size_t)(left * cols) * sizeof *j->sum);
}

/* A task owns some columns of all rows, so a row's gradients are added in order of position. */
static void add_columns(void *context, int64_t task, int thread)
{
    (void)thread;
    const job *j = context;
    const hil_op_call *call = j->call;
    int64_t count = hil_shape_count(&call->in[0].shape), cols = call->param[0].cols;
    int64_t c = task * TASK_COLS, n = cols - c < TASK_COLS ? cols - c : TASK_COLS;
    const hil_embedding_attr *attr = call->attr;
    int64_t pad = attr ? attr->pad : -1;
    float buffer[TASK_COLS];
    for (int64_t r = 0; r < count; ++r) {
        int64_t row = row_at(call, r);
        if (row < j->first || row >= j->last || row == pad) continue;
        const float *dy = hil_row_read(&call->dout[0], r * cols + c, n, buffer);
        float *sum = j->sum + (row - j->first) * cols + c;
        hil_rows()->math.add(sum, sum, dy, n);
    }
}

static hil_status backward(hil_op_call *call)
{
    if (!call->param[0].trainable) return HIL_OK;
    for (int64_t tile = 0; tile < hil_op_tiles(&call->param[0]); ++tile) {
        job j = tile_job(call, tile);
        bool add;
        HIL_TRY(call->source->gradient_begin(call->owner, 0, tile, &j.sum, &add));
        if (!add)
            hil_pool_run(call->pool, zero_rows, &j, (j.last - j.first + TASK_ROWS - 1) / TASK_ROWS);
        hil_pool_run(call->pool, add_columns, &j,
                     (call->param[0].cols + TASK_COLS - 1) / TASK_COLS);
        call->source->gradient_end(call->owner, 0, tile);
    }
    return HIL_OK;
}

const hil_op hil_op_embedding = {
    .name = "embedding",
    .attr_size = sizeof(hil_embedding_attr),
    .keep_in = 1,
    .once = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
