/* router_z.c - the loss that keeps the logits of a router small. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

/* Rows are tokens. Saved are their sizes: the logarithm of a row's sum of exponentials, 0 of a row
   that has no target. */
typedef struct sizes {
    int64_t rows, experts;
    hil_grid grid;
} sizes;

static sizes measure(const hil_op_call *call)
{
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    return (sizes){rows, hil_shape_cols(&call->in[0].shape), hil_row_grid(rows)};
}

/* Scratch: of each block of rows the sum of squares, if it is forward, and a row of numbers. */
static double *sum_of(const hil_op_call *call, int64_t block)
{
    return (double *)call->scratch + block;
}

static float *row_of(const hil_op_call *call, const sizes *s, int64_t block, bool back)
{
    char *rows = (char *)call->scratch + (back ? 0 : (size_t)s->grid.blocks * sizeof(double));
    return (float *)(void *)rows + block * s->experts;
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    sizes s = measure(call);
    const hil_tensor *target = &call->in[1];
    if (target->dtype != HIL_I32 || hil_shape_count(&target->shape) != s.rows)
        return hil_fail(HIL_ERR_USAGE, "router_z: targets %s %s are not those of %lld tokens",
                        hil_dtype_name(target->dtype), hil_infer_shape_text(&target->shape).text,
                        (long long)s.rows);
    hil_infer_out(call, HIL_F32, &(hil_shape){1, {2}});
    call->saveds = 1;
    call->saved[0] = (hil_tensor){HIL_F32, {1, {s.rows}}, NULL};
    call->backward_scratch = (size_t)(s.grid.blocks * s.experts) * sizeof(float);
    call->forward_scratch = call->backward_scratch + (size_t)s.grid.blocks * sizeof(double);
    return HIL_OK;
}

/* A copy of a row's logits in `room`. */
static void copy_row(const hil_op_call *call, const sizes *s, int64_t row, float *room)
{
    const float *x = hil_row_read(&call->in[0], row * s->experts, s->experts, room);
    if (x != room) memcpy(room, x, (size_t)s->experts * sizeof *x);
}

static void measure_block(void *context, int64_t block, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    sizes s = measure(call);
    float *room = row_of(call, &s, block, false), *size = call->saved[0].data;
    const int32_t *target = call->in[1].data;
    double sum = 0;
    for (int64_t row = block * s.grid.block; row < hil_grid_end(&s.grid, block); ++row) {
        size[row] = 0;
        if (target[row] < 0) continue;
        copy_row(call, &s, row, room);
        float most = hil_rows()->math.max(room, s.experts);
        size[row] = most + logf(hil_rows()->math.exp_sum(room, most, s.experts));
        sum += (double)size[row] * (double)size[row];
    }
    *sum_of(call, block) = sum;
}

static void add_blocks(void *context, int64_t task, int thread)
{
    (void)task, (void)thread;
    const hil_op_call *call = context;
    const hil_router_z_attr *attr = call->attr;
    sizes s = measure(call);
    double sum = 0;
    for (int64_t b = 0; b < s.grid.blocks; ++b) sum += *sum_of(call, b);
    float *out = call->out[0].data;
    out[0] = (float)(attr->coefficient * sum / (double)attr->layers);
    out[1] = (float)(sum / (double)attr->layers);
}

static hil_status forward(hil_op_call *call)
{
    hil_pool_run(call->pool, measure_block, call, measure(call).grid.blocks);
    hil_pool_run(call->pool, add_blocks, call, 1);
    return HIL_OK;
}

/* The gradient of a row's squared size is twice the size times the softmax of the row: 0 where the
   size is. */
static void backward_block(void *context, int64_t block, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    const hil_router_z_attr *attr = call->attr;
    sizes s = measure(call);
    const float *size = call->saved[0].data;
    float *room = row_of(call, &s, block, true);
    double factor = 2 * (double)call->loss_scale * attr->coefficient / (double)attr->layers;
    for (int64_t row = block * s.grid.block; row < hil_grid_end(&s.grid, block); ++row) {
        memset(room, 0, (size_t)s.experts * sizeof *room);
        if (size[row] != 0) {
            copy_row(call, &s, row, room);
            hil_rows()->math.exp_sum(room, size[row], s.experts);
            hil_rows()->math.scale(room, room, (float)(factor * (double)size[row]), s.experts);
        }
        hil_row_write(&call->din[0], row * s.experts, s.experts, room, call->din_add[0]);
    }
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data)
        hil_pool_run(call->pool, backward_block, call, measure(call).grid.blocks);
    return HIL_OK;
}

const hil_op hil_op_router_z = {
    .name = "router_z",
    .attr_size = sizeof(hil_router_z_attr),
    .keep_in = 1,
    .loss = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
