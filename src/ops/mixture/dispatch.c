/* dispatch.c - copies the row of each token to the places of its choices, or its products with
   their weights. */
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
    if (call->ins == 3) {
        const hil_tensor *weight = &call->in[2];
        HIL_TRY(hil_infer_float(call, 2, 0));
        if (hil_shape_count(&weight->shape) != place->shape.dim[0])
            return hil_fail(HIL_ERR_USAGE, "dispatch: weights %s do not fit places %s",
                            hil_infer_shape_text(&weight->shape).text,
                            hil_infer_shape_text(&place->shape).text);
    }
    hil_infer_out(call, call->in[0].dtype, &(hil_shape){2, {place->shape.dim[0], s.cols}});
    return HIL_OK;
}

/* Of choice i; 1 where there are no weights. */
static float weight_of(const hil_op_call *call, int64_t i)
{
    float one;
    return call->ins == 3 ? *hil_row_read(&call->in[2], i, 1, &one) : 1;
}

static void scale_row(const hil_op_call *call, const hil_choices *s, int64_t i)
{
    int64_t from = i / s->chosen * s->cols, to = ((const int32_t *)call->in[1].data)[i] * s->cols;
    float buffer[HIL_CHOICES_PIECE], weight = weight_of(call, i);
    for (int64_t c = 0; c < s->cols; c += HIL_CHOICES_PIECE) {
        int64_t n = s->cols - c < HIL_CHOICES_PIECE ? s->cols - c : HIL_CHOICES_PIECE;
        const float *x = hil_row_read(&call->in[0], from + c, n, buffer);
        hil_rows()->math.scale(buffer, x, weight, n);
        hil_row_write(&call->out[0], to + c, n, buffer, false);
    }
}

static void copy_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    hil_choices s = measure(call);
    const int32_t *place = call->in[1].data;
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < s.rows; ++r)
        for (int64_t j = 0; j < s.chosen; ++j) {
            if (call->ins == 3)
                scale_row(call, &s, r * s.chosen + j);
            else
                hil_row_copy(&call->out[0], place[r * s.chosen + j] * s.cols, &call->in[0],
                             r * s.cols, s.cols, false);
        }
}

static hil_status forward(hil_op_call *call)
{
    hil_choices_run(call, copy_rows, measure(call).rows);
    return HIL_OK;
}

/* The gradient of a weight: that of its copy, times x. */
static void back_weight(const hil_op_call *call, const hil_choices *s, int64_t i)
{
    int64_t from = i / s->chosen * s->cols, to = ((const int32_t *)call->in[1].data)[i] * s->cols;
    float product[HIL_CHOICES_PIECE], buffer[HIL_CHOICES_PIECE], other[HIL_CHOICES_PIECE], dot = 0;
    for (int64_t c = 0; c < s->cols; c += HIL_CHOICES_PIECE) {
        int64_t n = s->cols - c < HIL_CHOICES_PIECE ? s->cols - c : HIL_CHOICES_PIECE;
        const float *dy = hil_row_read(&call->dout[0], to + c, n, buffer);
        const float *x = hil_row_read(&call->in[0], from + c, n, other);
        hil_rows()->math.multiply(product, dy, x, n);
        dot += hil_rows()->math.sum(product, n);
    }
    hil_row_write(&call->din[2], i, 1, &dot, call->din_add[2]);
}

/* The gradients of a token's copies are added in the order of its choices, and rounded once. */
static void add_row(const hil_op_call *call, const hil_choices *s, int64_t r)
{
    const int32_t *place = (const int32_t *)call->in[1].data + r * s->chosen;
    float sum[HIL_CHOICES_PIECE], scaled[HIL_CHOICES_PIECE], buffer[HIL_CHOICES_PIECE];
    for (int64_t c = 0; c < s->cols; c += HIL_CHOICES_PIECE) {
        int64_t n = s->cols - c < HIL_CHOICES_PIECE ? s->cols - c : HIL_CHOICES_PIECE;
        for (int64_t j = 0; j < s->chosen; ++j) {
            const float *dy = hil_row_read(&call->dout[0], place[j] * s->cols + c, n, buffer);
            hil_rows()->math.scale(j ? scaled : sum, dy, weight_of(call, r * s->chosen + j), n);
            if (j) hil_rows()->math.add(sum, sum, scaled, n);
        }
        hil_row_write(&call->din[0], r * s->cols + c, n, sum, call->din_add[0]);
    }
}

static void add_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    hil_choices s = measure(call);
    bool weighs = call->ins == 3 && call->din[2].data;
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < s.rows;
         ++r) {
        if (call->din[0].data) add_row(call, &s, r);
        for (int64_t j = 0; weighs && j < s.chosen; ++j) back_weight(call, &s, r * s.chosen + j);
    }
}

static hil_status backward(hil_op_call *call)
{
    hil_choices_run(call, add_rows, measure(call).rows);
    return HIL_OK;
}

const hil_op hil_op_dispatch = {
    .name = "dispatch",
    .keep_in = 1 | 1 << 1 | 1 << 2, /* x, so that the copies need not be kept */
    .cheap = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
