/* combine.c - the weighted sum of the results of each token's experts, added to a residual. */
#include "ops/mixture/choices.h"

static hil_choices measure(const hil_op_call *call)
{
    return (hil_choices){hil_shape_rows(&call->in[1].shape), hil_shape_cols(&call->in[1].shape),
                         hil_shape_cols(&call->in[0].shape)};
}

/* Whether all weights are 1. */
static bool is_plain(const hil_op_call *call)
{
    return call->in[1].dtype == HIL_I32;
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 2));
    if (!is_plain(call)) HIL_TRY(hil_infer_float(call, 1, 0));
    hil_choices s = measure(call);
    const hil_tensor *place = &call->in[2];
    int64_t copies = s.rows * s.chosen;
    if (place->dtype != HIL_I32 || hil_shape_count(&place->shape) != copies ||
        call->in[0].shape.dim[0] != copies || s.chosen > HIL_ROUTE_CHOSEN)
        return hil_fail(HIL_ERR_USAGE, "combine: weights %s, places %s and results %s do not fit",
                        hil_infer_shape_text(&call->in[1].shape).text,
                        hil_infer_shape_text(&place->shape).text,
                        hil_infer_shape_text(&call->in[0].shape).text);
    hil_shape shape = call->in[1].shape;
    shape.dim[shape.ndim - 1] = s.cols;
    if (call->ins == 4 && !hil_shape_equal(&call->in[3].shape, &shape))
        return hil_fail(HIL_ERR_USAGE, "combine: residual is %s, expected %s",
                        hil_infer_shape_text(&call->in[3].shape).text,
                        hil_infer_shape_text(&shape).text);
    hil_infer_out(call, call->compute, &shape);
    return HIL_OK;
}

/* Of row r, column c on: the sum in the order of the choices, then the residual. */
static void sum_piece(const hil_op_call *call, const hil_choices *s, int64_t r, int64_t c)
{
    const int32_t *place = (const int32_t *)call->in[2].data + r * s->chosen;
    float sum[HIL_CHOICES_PIECE], scaled[HIL_CHOICES_PIECE], buffer[HIL_CHOICES_PIECE],
        each[HIL_ROUTE_CHOSEN];
    const float *weight = NULL;
    if (!is_plain(call)) weight = hil_row_read(&call->in[1], r * s->chosen, s->chosen, each);
    int64_t n = s->cols - c < HIL_CHOICES_PIECE ? s->cols - c : HIL_CHOICES_PIECE;
    for (int64_t j = 0; j < s->chosen; ++j) {
        const float *y = hil_row_read(&call->in[0], place[j] * s->cols + c, n, buffer);
        hil_rows()->math.scale(j ? scaled : sum, y, weight ? weight[j] : 1, n);
        if (j) hil_rows()->math.add(sum, sum, scaled, n);
    }
    if (call->ins == 4) {
        const float *residual = hil_row_read(&call->in[3], r * s->cols + c, n, buffer);
        hil_rows()->math.add(sum, sum, residual, n);
    }
    hil_row_write(&call->out[0], r * s->cols + c, n, sum, false);
}

static void sum_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    hil_choices s = measure(call);
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < s.rows; ++r)
        for (int64_t c = 0; c < s.cols; c += HIL_CHOICES_PIECE) sum_piece(call, &s, r, c);
}

static hil_status forward(hil_op_call *call)
{
    hil_choices_run(call, sum_rows, measure(call).rows);
    return HIL_OK;
}

/* Of choice i: the gradient of its result is weight * dout; that of its weight, dout . result. */
static void back_choice(const hil_op_call *call, const hil_choices *s, int64_t i)
{
    int64_t place = ((const int32_t *)call->in[2].data)[i], row = i / s->chosen;
    float scaled[HIL_CHOICES_PIECE], buffer[HIL_CHOICES_PIECE], other[HIL_CHOICES_PIECE], one,
        dot = 0;
    float weight = is_plain(call) ? 1 : *hil_row_read(&call->in[1], i, 1, &one);
    for (int64_t c = 0; c < s->cols; c += HIL_CHOICES_PIECE) {
        int64_t n = s->cols - c < HIL_CHOICES_PIECE ? s->cols - c : HIL_CHOICES_PIECE;
        const float *dy = hil_row_read(&call->dout[0], row * s->cols + c, n, buffer);
        if (call->din[1].data) {
            const float *y = hil_row_read(&call->in[0], place * s->cols + c, n, other);
            hil_rows()->math.multiply(scaled, dy, y, n);
            dot += hil_rows()->math.sum(scaled, n);
        }
        if (!call->din[0].data) continue;
        hil_rows()->math.scale(scaled, dy, weight, n);
        hil_row_write(&call->din[0], place * s->cols + c, n, scaled, call->din_add[0]);
    }
    if (call->din[1].data) hil_row_write(&call->din[1], i, 1, &dot, call->din_add[1]);
}

static void back_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    hil_choices s = measure(call);
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < s.rows; ++r)
        for (int64_t j = 0; j < s.chosen; ++j) back_choice(call, &s, r * s.chosen + j);
}

static hil_status backward(hil_op_call *call)
{
    hil_choices_run(call, back_rows, measure(call).rows);
    return HIL_OK;
}

const hil_op hil_op_combine = {
    .name = "combine",
    .keep_in = 1 | 1 << 1 | 1 << 2,
    .pass = 1 << 3,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
