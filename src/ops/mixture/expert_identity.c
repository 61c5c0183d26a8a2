/* expert_identity.c - the experts without weights, which give what they get: each token times the
   sum of its weights for them. */
#include "ops/mixture/choices.h"

static hil_choices measure(const hil_op_call *call)
{
    return (hil_choices){hil_shape_rows(&call->in[1].shape), hil_shape_cols(&call->in[1].shape),
                         hil_shape_cols(&call->in[0].shape)};
}

static hil_status infer(hil_op_call *call)
{
    const hil_identity_attr *attr = call->attr;
    HIL_TRY(hil_infer_float(call, 0, 0));
    HIL_TRY(hil_infer_float(call, 1, 0));
    hil_choices s = measure(call);
    const hil_tensor *place = &call->in[2], *begin = &call->in[3];
    if (place->dtype != HIL_I32 || hil_shape_count(&place->shape) != s.rows * s.chosen ||
        hil_shape_rows(&call->in[0].shape) != s.rows || s.chosen > HIL_ROUTE_CHOSEN)
        return hil_fail(HIL_ERR_USAGE, "expert_identity: weights %s, places %s and x %s do not fit",
                        hil_infer_shape_text(&call->in[1].shape).text,
                        hil_infer_shape_text(&place->shape).text,
                        hil_infer_shape_text(&call->in[0].shape).text);
    if (begin->dtype != HIL_I32 || begin->shape.ndim != 1 || attr->first < 0 ||
        attr->first >= begin->shape.dim[0])
        return hil_fail(HIL_ERR_USAGE, "expert_identity: expert %lld is not one of %s",
                        (long long)attr->first, hil_infer_shape_text(&begin->shape).text);
    hil_infer_out(call, call->compute, &call->in[0].shape);
    return HIL_OK;
}

/* Whether choice i is of such an expert. */
static bool is_identity(const hil_op_call *call, int64_t i)
{
    const hil_identity_attr *attr = call->attr;
    return ((const int32_t *)call->in[2].data)[i] >=
           ((const int32_t *)call->in[3].data)[attr->first];
}

static float sum_weights(const hil_op_call *call, const hil_choices *s, int64_t row)
{
    float each[HIL_ROUTE_CHOSEN], sum = 0;
    const float *weight = hil_row_read(&call->in[1], row * s->chosen, s->chosen, each);
    for (int64_t j = 0; j < s->chosen; ++j)
        if (is_identity(call, row * s->chosen + j)) sum += weight[j];
    return sum;
}

/* A row of `to` = that of `from` times the sum of its weights. */
static void scale_row(const hil_op_call *call, int64_t row, const hil_tensor *from,
                      const hil_tensor *to, bool add)
{
    hil_choices s = measure(call);
    float buffer[HIL_CHOICES_PIECE], scaled[HIL_CHOICES_PIECE], sum = sum_weights(call, &s, row);
    for (int64_t c = 0; c < s.cols; c += HIL_CHOICES_PIECE) {
        int64_t n = s.cols - c < HIL_CHOICES_PIECE ? s.cols - c : HIL_CHOICES_PIECE;
        const float *x = hil_row_read(from, row * s.cols + c, n, buffer);
        hil_rows()->math.scale(scaled, x, sum, n);
        hil_row_write(to, row * s.cols + c, n, scaled, add);
    }
}

static void scale_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t rows = measure(call).rows;
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < rows; ++r)
        scale_row(call, r, &call->in[0], &call->out[0], false);
}

static hil_status forward(hil_op_call *call)
{
    hil_choices_run(call, scale_rows, measure(call).rows);
    return HIL_OK;
}

/* The gradient of a weight of such an expert is x . dout. */
static void back_weights(const hil_op_call *call, const hil_choices *s, int64_t row)
{
    float buffer[HIL_CHOICES_PIECE], other[HIL_CHOICES_PIECE], dot = 0;
    for (int64_t c = 0; c < s->cols; c += HIL_CHOICES_PIECE) {
        int64_t n = s->cols - c < HIL_CHOICES_PIECE ? s->cols - c : HIL_CHOICES_PIECE;
        const float *x = hil_row_read(&call->in[0], row * s->cols + c, n, buffer);
        const float *dy = hil_row_read(&call->dout[0], row * s->cols + c, n, other);
        hil_rows()->math.multiply(buffer, x, dy, n);
        dot += hil_rows()->math.sum(buffer, n);
    }
    for (int64_t i = row * s->chosen; i < (row + 1) * s->chosen; ++i) {
        float dw = is_identity(call, i) ? dot : 0;
        hil_row_write(&call->din[1], i, 1, &dw, call->din_add[1]);
    }
}

static void back_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    hil_choices s = measure(call);
    for (int64_t r = task * HIL_CHOICES_TASK; r < (task + 1) * HIL_CHOICES_TASK && r < s.rows;
         ++r) {
        if (call->din[1].data) back_weights(call, &s, r);
        if (call->din[0].data) scale_row(call, r, &call->dout[0], &call->din[0], call->din_add[0]);
    }
}

static hil_status backward(hil_op_call *call)
{
    hil_choices_run(call, back_rows, measure(call).rows);
    return HIL_OK;
}

const hil_op hil_op_expert_identity = {
    .name = "expert_identity",
    .attr_size = sizeof(hil_identity_attr),
    .keep_in = 1 | 1 << 1 | 1 << 2 | 1 << 3,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
