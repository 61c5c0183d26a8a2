/* xielu.c - xIELU: a parabola for positive x, an exponential for others, with trained factors. */
#include "ops/elements/elements.h"
#include "ops/elements/xielu.h"
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

/* Scratch: the parameters; in backward also sums of the gradients of the first two, of each piece.
 */
static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_elements_single_infer(call));
    for (int i = 0; i < call->params; ++i) HIL_TRY(hil_infer_vector(call, i, 1));
    if (call->params != HIL_XIELU_NUMBERS || call->param[HIL_XIELU_BETA].trainable ||
        call->param[HIL_XIELU_EPS].trainable)
        return hil_fail(HIL_ERR_USAGE, "xielu: expected four numbers, the last two not trained");
    int64_t pieces = (hil_shape_count(&call->in[0].shape) + HIL_PIECE - 1) / HIL_PIECE;
    hil_scratch_add(&call->forward_scratch, HIL_XIELU_NUMBERS, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    hil_scratch_add(&call->backward_scratch, 2 * pieces, sizeof(float));
    return HIL_OK;
}

static hil_status read_numbers(const hil_op_call *call)
{
    for (int i = 0; i < HIL_XIELU_NUMBERS; ++i)
        HIL_TRY(hil_op_vector(call, i, (float *)call->scratch + i));
    return HIL_OK;
}

static void forward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                          float *const *out)
{
    (void)at;
    hil_xielu p = hil_xielu_of(job->call->scratch);
    for (int64_t i = 0; i < n; ++i) out[0][i] = hil_xielu_value(&p, in[0][i]);
}

static hil_status forward(hil_op_call *call)
{
    HIL_TRY(read_numbers(call));
    return hil_elements_single_run(call, forward_piece);
}

/* Sums of the gradients of parameter `i`, one of each piece. */
static float *find_sums(const hil_op_call *call, int i)
{
    size_t at = 0;
    int64_t pieces = (hil_shape_count(&call->in[0].shape) + HIL_PIECE - 1) / HIL_PIECE;
    hil_scratch_add(&at, HIL_XIELU_NUMBERS, sizeof(float));
    return (float *)((char *)call->scratch + at) + i * pieces;
}

/* in: x and dy; out: dx. */
static void backward_piece(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                           float *const *out)
{
    hil_xielu p = hil_xielu_of(job->call->scratch);
    double sum[2] = {0};
    float by;
    for (int64_t i = 0; i < n; ++i) {
        float slope = hil_xielu_slope(&p, in[0][i], &by), dy = in[1][i];
        sum[in[0][i] > 0 ? HIL_XIELU_POSITIVE : HIL_XIELU_NEGATIVE] += (double)dy * (double)by;
        out[0][i] = dy * slope;
    }
    for (int i = 0; i < 2; ++i) find_sums(job->call, i)[at / HIL_PIECE] = (float)sum[i];
}

static hil_status backward(hil_op_call *call)
{
    int64_t count = hil_shape_count(&call->in[0].shape);
    HIL_TRY(read_numbers(call));
    hil_elements_run(&(hil_elements){.piece = backward_piece,
                                     .call = call,
                                     .count = count,
                                     .ins = 2,
                                     .outs = 1,
                                     .in = {call->in[0], call->dout[0]},
                                     .out = {call->din[0]},
                                     .add = {call->din_add[0]}});
    float *partial[HIL_XIELU_NUMBERS] = {NULL};
    for (int i = 0; i < 2; ++i)
        if (call->param[i].trainable) partial[i] = find_sums(call, i);
    return hil_op_gather_vectors(call, partial, (count + HIL_PIECE - 1) / HIL_PIECE, 1);
}

const hil_op hil_op_xielu = {
    .name = "xielu",
    .keep_in = 1,
    .reuse = 1,
    .cheap = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
