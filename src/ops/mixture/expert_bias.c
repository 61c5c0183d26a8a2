/* expert_bias.c - adds to each row the bias of the expert that it belongs to. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

/* The scratch memory holds the biases of all experts, or the sums of their gradients. */
static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 2));
    const hil_tensor *begin = &call->in[1];
    int64_t experts = begin->shape.dim[0] - 1, cols = call->in[0].shape.dim[1];
    if (begin->dtype != HIL_I32 || begin->shape.ndim != 1 || experts < 1 || call->params != 1 ||
        call->param[0].rows != 1 || call->param[0].cols != experts * cols)
        return hil_fail(HIL_ERR_USAGE, "expert_bias: rows %s of %lld experts do not fit the biases",
                        hil_infer_shape_text(&call->in[0].shape).text, (long long)experts);
    hil_infer_out(call, call->compute, &call->in[0].shape);
    hil_scratch_add(&call->forward_scratch, experts * cols, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    return HIL_OK;
}

static void add_rows(void *context, int64_t expert, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    const int32_t *begin = call->in[1].data;
    int64_t cols = call->in[0].shape.dim[1];
    const float *bias = (const float *)call->scratch + expert * cols;
    float buffer[HIL_LANES * 16], sum[HIL_LANES * 16];
    enum { PIECE = sizeof sum / sizeof *sum };
    for (int64_t r = begin[expert]; r < begin[expert + 1]; ++r)
        for (int64_t c = 0; c < cols; c += PIECE) {
            int64_t n = cols - c < PIECE ? cols - c : PIECE, at = r * cols + c;
            hil_rows()->math.add(sum, hil_row_read(&call->in[0], at, n, buffer), bias + c, n);
            hil_row_write(&call->out[0], at, n, sum, false);
        }
}

static hil_status forward(hil_op_call *call)
{
    HIL_TRY(hil_op_vector(call, 0, call->scratch));
    hil_pool_run(call->pool, add_rows, call, call->in[1].shape.dim[0] - 1);
    return HIL_OK;
}

/* The rows of an expert are added in order; 0 for one that no row chose. */
static void sum_rows(void *context, int64_t expert, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    const int32_t *begin = call->in[1].data;
    int64_t cols = call->in[0].shape.dim[1];
    float *sum = (float *)call->scratch + expert * cols;
    float buffer[HIL_LANES * 16];
    enum { PIECE = sizeof buffer / sizeof *buffer };
    memset(sum, 0, (size_t)cols * sizeof *sum);
    for (int64_t r = begin[expert]; r < begin[expert + 1]; ++r)
        for (int64_t c = 0; c < cols; c += PIECE) {
            int64_t n = cols - c < PIECE ? cols - c : PIECE;
            const float *dy = hil_row_read(&call->dout[0], r * cols + c, n, buffer);
            hil_rows()->math.add(sum + c, sum + c, dy, n);
        }
}

static hil_status backward(hil_op_call *call)
{
    if (!call->param[0].trainable) return HIL_OK;
    hil_pool_run(call->pool, sum_rows, call, call->in[1].shape.dim[0] - 1);
    return hil_op_gather_vectors(call, (float *[]){call->scratch}, 1, call->param[0].cols);
}

const hil_op hil_op_expert_bias = {
    .name = "expert_bias",
    .keep_in = 2,
    .pass = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
