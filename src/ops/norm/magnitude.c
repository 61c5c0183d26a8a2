/* magnitude.c - z times magnitude / norm of each column, plus bias and residual. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

/* Scratch: norm, magnitude / norm and bias as fp32; in backward also the gradients of both for each
   block of rows. */
typedef struct job {
    const hil_op_call *call;
    hil_grid grid;
    int64_t cols;
    float *norm;
    float *vector[2];  /* magnitude / norm, and the bias, or NULL */
    float *partial[2]; /* blocks x cols; NULL where not wanted */
} job;

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    const hil_shape *shape = &call->in[0].shape;
    int64_t cols = hil_shape_cols(shape);
    if (call->ins < 2 || call->ins > 3 || hil_shape_count(&call->in[1].shape) != cols)
        return hil_fail(HIL_ERR_USAGE, "magnitude: norms %s do not fit %s",
                        hil_infer_shape_text(&call->in[1].shape).text,
                        hil_infer_shape_text(shape).text);
    if (call->params < 1 || call->params > 2)
        return hil_fail(HIL_ERR_USAGE, "magnitude: %d parameters, expected 1 or 2", call->params);
    for (int i = 0; i < call->params; ++i) HIL_TRY(hil_infer_vector(call, i, cols));
    if (call->ins == 3) HIL_TRY(hil_infer_same(call, 2));
    hil_infer_out(call, call->compute, shape);
    hil_grid grid = hil_row_grid(hil_shape_rows(shape));
    for (int i = 0; i < call->params + 1; ++i)
        hil_scratch_add(&call->forward_scratch, cols, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    for (int i = 0; i < call->params; ++i)
        hil_scratch_add(&call->backward_scratch, grid.blocks * cols, sizeof(float));
    return HIL_OK;
}

static float *take(const hil_op_call *call, size_t *at, int64_t count)
{
    return (float *)((char *)call->scratch + hil_scratch_add(at, count, sizeof(float)));
}

static hil_status prepare(const hil_op_call *call, job *out)
{
    *out = (job){.call = call,
                 .grid = hil_row_grid(hil_shape_rows(&call->in[0].shape)),
                 .cols = hil_shape_cols(&call->in[0].shape)};
    size_t at = 0;
    bool dry = hil_pool_is_dry(call->pool);
    out->norm = take(call, &at, out->cols);
    if (!dry) hil_dtype_to_f32(out->norm, call->in[1].data, call->in[1].dtype, out->cols);
    for (int i = 0; i < call->params; ++i) {
        out->vector[i] = take(call, &at, out->cols);
        HIL_TRY(hil_op_vector(call, i, out->vector[i]));
    }
    for (int64_t c = 0; c < out->cols && !dry; ++c) out->vector[0][c] /= out->norm[c];
    for (int i = 0; i < call->params; ++i) {
        float *partial = take(call, &at, out->grid.blocks * out->cols);
        if (call->param[i].trainable) out->partial[i] = partial;
    }
    return hil_pool_reserve(call->pool, 3 * sizeof(float) * (size_t)(out->cols + HIL_LANES));
}

static void forward_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    const hil_op_call *call = j->call;
    const hil_row_math *math = &hil_rows()->math;
    int64_t n = j->cols, stride = n + HIL_LANES;
    float *buffer = hil_pool_scratch(call->pool, thread); /* of three rows */
    for (int64_t r = block * j->grid.block; r < hil_grid_end(&j->grid, block); ++r) {
        const float *z = hil_row_read(&call->in[0], r * n, n, buffer);
        float *y = hil_row_place(&call->out[0], r * n, false, buffer + stride);
        math->multiply(y, z, j->vector[0], n);
        if (j->vector[1]) math->add(y, y, j->vector[1], n);
        if (call->ins == 3)
            math->add(y, y, hil_row_read(&call->in[2], r * n, n, buffer + 2 * stride), n);
        hil_row_write(&call->out[0], r * n, n, y, false);
    }
}

static void backward_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    float *sum[2] = {NULL, NULL};
    int64_t n = j->cols, stride = n + HIL_LANES;
    const hil_op_call *call = j->call;
    float *buffer = hil_pool_scratch(call->pool, thread); /* of three rows */
    const hil_row_math *math = &hil_rows()->math;
    for (int i = 0; i < 2; ++i) {
        if (j->partial[i]) sum[i] = j->partial[i] + block * n;
        if (sum[i]) memset(sum[i], 0, (size_t)n * sizeof(float));
    }
    for (int64_t r = block * j->grid.block; r < hil_grid_end(&j->grid, block); ++r) {
        const float *z = hil_row_read(&call->in[0], r * n, n, buffer);
        const float *dy = hil_row_read(&call->dout[0], r * n, n, buffer + stride);
        float *work = buffer + 2 * stride;
        if (sum[0]) {
            math->multiply(work, z, dy, n);
            math->add(sum[0], sum[0], work, n);
        }
        if (sum[1]) math->add(sum[1], sum[1], dy, n);
        if (!call->din[0].data) continue;
        float *dz = hil_row_place(&call->din[0], r * n, call->din_add[0], work);
        math->multiply(dz, dy, j->vector[0], n);
        hil_row_write(&call->din[0], r * n, n, dz, call->din_add[0]);
    }
    for (int64_t c = 0; c < n && sum[0]; ++c) sum[0][c] /= j->norm[c];
}

static hil_status forward(hil_op_call *call)
{
    job j;
    HIL_TRY(prepare(call, &j));
    hil_pool_run(call->pool, forward_rows, &j, j.grid.blocks);
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    job j;
    HIL_TRY(prepare(call, &j));
    hil_pool_run(call->pool, backward_rows, &j, j.grid.blocks);
    return hil_op_gather_vectors(call, j.partial, j.grid.blocks, j.cols);
}

const hil_op hil_op_magnitude = {
    .name = "magnitude",
    .keep_in = 3,
    .pass = 4,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
