/* dispatch.c - copies the row of each token to the places of its choices. */
#include "ops/mixture/choices.h"

static hil_choices measure(const hil_op_call *call)
{
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    int64_t places = hil_shape_count(&call->in[1].shape);
    return (hil_choices){rows, rows ? places / rows : 0, hil_shape_cols(&call->in[0].shape)};
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    hil_choices s = measure(call);
    const hil_tensor *place = &call->in[1];
    if (place->dtype != HIL_I32 || place->shape.ndim != 1 || s.chosen < 1 ||
        s.chosen * s.rows != place->shape.dim[0])
        return hil_fail(HIL_ERR_USAGE, "dispatch: places %s %s do not fit the rows of %s",
                        hil_dtype_name(place->dtype), hil_infer_shape_text(&place->shape).text,
                        hil_infer_shape_text(&call->in[0].shape).text);
    hil_infer_out(call, call->in[0].dtype, &(hil_shape){2, {place->shape.dim[0], s.cols}});
    return HIL_OK;
}

static void copy_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    hil_choices s = measure(call);
    const int32_t *place = call->in[1].data;
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < s.rows; ++r)
        for (int64_t j = 0; j < s.chosen; ++j)
            hil_row_copy(&call->out[0], place[r * s.chosen + j] * s.cols, &call->in[0], r * s.cols,
                         s.cols, false);
}

static hil_status forward(hil_op_call *call)
{
    hil_choices_run(call, copy_rows, measure(call).rows);
    return HIL_OK;
}

/* The gradients of a token's copies are added in the order of its choices, and rounded once. */
static void add_row(const hil_op_call *call, const hil_choices *s, int64_t r)
{
    const int32_t *place = (const int32_t *)call->in[1].data + r * s->chosen;
    float sum[HIL_CHOICES_PIECE], buffer[HIL_CHOICES_PIECE];
    for (int64_t c = 0; c < s->cols; c += HIL_CHOICES_PIECE) {
        int64_t n = s->cols - c < HIL_CHOICES_PIECE ? s->cols - c : HIL_CHOICES_PIECE;
        for (int64_t j = 0; j < s->chosen; ++j) {
            const float *dy = hil_row_read(&call->dout[0], place[j] * s->cols + c, n, buffer);
            if (j)
                hil_rows()->math.add(sum, sum, dy, n);
            else
                hil_rows()->math.scale(sum, dy, 1, n);
        }
        hil_row_write(&call->din[0], r * s->cols + c, n, sum, call->din_add[0]);
    }
}

static void add_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    hil_choices s = measure(call);
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < s.rows; ++r)
        add_row(call, &s, r);
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data) hil_choices_run(call, add_rows, measure(call).rows);
    return HIL_OK;
}

const hil_op hil_op_dispatch = {
    .name = "dispatch",
    .keep_in = 1 | 1 << 1, /* x, so that the copies need not be kept */
    .cheap = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
