/* expert_scale.c - multiplies the weight of each choice by a factor of its expert. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

typedef struct sizes {
    int64_t rows, chosen, experts;
    hil_grid grid;
} sizes;

static sizes measure(const hil_op_call *call)
{
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    return (sizes){rows, hil_shape_cols(&call->in[0].shape), call->in[2].shape.dim[0] - 1,
                   hil_row_grid(rows)};
}

/* Scratch: the factors; in backward also sums of their gradients, of each block of rows. */
static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    const hil_tensor *place = &call->in[1], *begin = &call->in[2];
    if (begin->dtype != HIL_I32 || begin->shape.ndim != 1 || begin->shape.dim[0] < 2 ||
        place->dtype != HIL_I32 ||
        hil_shape_count(&place->shape) != hil_shape_count(&call->in[0].shape))
        return hil_fail(HIL_ERR_USAGE, "expert_scale: weights %s and places %s do not fit",
                        hil_infer_shape_text(&call->in[0].shape).text,
                        hil_infer_shape_text(&place->shape).text);
    sizes s = measure(call);
    HIL_TRY(hil_infer_vector(call, 0, s.experts));
    hil_infer_out(call, call->in[0].dtype, &call->in[0].shape);
    hil_scratch_add(&call->forward_scratch, s.experts, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    hil_scratch_add(&call->backward_scratch, s.grid.blocks * s.experts, sizeof(float));
    return HIL_OK;
}

/* The expert whose choices lie around `place`. */
static int64_t find_expert(const int32_t *begin, int64_t experts, int32_t place)
{
    int64_t low = 0, high = experts;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (begin[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void scale_block(void *context, int64_t block, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    sizes s = measure(call);
    const int32_t *place = call->in[1].data, *begin = call->in[2].data;
    const float *factor = call->scratch;
    float one;
    for (int64_t i = block * s.grid.block * s.chosen; i < hil_grid_end(&s.grid, block) * s.chosen;
         ++i) {
        float y = *hil_row_read(&call->in[0], i, 1, &one) *
                  factor[find_expert(begin, s.experts, place[i])];
        hil_row_write(&call->out[0], i, 1, &y, false);
    }
}

static hil_status forward(hil_op_call *call)
{
    HIL_TRY(hil_op_vector(call, 0, call->scratch));
    hil_pool_run(call->pool, scale_block, call, measure(call).grid.blocks);
    return HIL_OK;
}

static float *find_sums(const hil_op_call *call)
{
    size_t at = 0;
    hil_scratch_add(&at, measure(call).experts, sizeof(float));
    return (float *)((char *)call->scratch + at);
}

static void back_block(void *context, int64_t block, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    sizes s = measure(call);
    const int32_t *place = call->in[1].data, *begin = call->in[2].data;
    const float *factor = call->scratch;
    float *sum = find_sums(call) + block * s.experts, arrived, weight;
    memset(sum, 0, (size_t)s.experts * sizeof *sum);
    for (int64_t i = block * s.grid.block * s.chosen; i < hil_grid_end(&s.grid, block) * s.chosen;
         ++i) {
        int64_t expert = find_expert(begin, s.experts, place[i]);
        float dy = *hil_row_read(&call->dout[0], i, 1, &arrived);
        sum[expert] += dy * *hil_row_read(&call->in[0], i, 1, &weight);
        if (!call->din[0].data) continue;
        dy *= factor[expert];
        hil_row_write(&call->din[0], i, 1, &dy, call->din_add[0]);
    }
}

static hil_status backward(hil_op_call *call)
{
    sizes s = measure(call);
    if (call->din[0].data) HIL_TRY(hil_op_vector(call, 0, call->scratch));
    hil_pool_run(call->pool, back_block, call, s.grid.blocks);
    if (!call->param[0].trainable) return HIL_OK;
    return hil_op_gather_vectors(call, (float *[]){find_sums(call)}, s.grid.blocks, s.experts);
}

const hil_op hil_op_expert_scale = {
    .name = "expert_scale",
    .keep_in = 1 | 1 << 1 | 1 << 2,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
