/* sigmoid_gate.c - x times the sigmoids of its gates, or their softplus: one for each row, or one
   for each element. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <math.h>

enum { PIECE = 1024, TASK_ROWS = 16 };

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    HIL_TRY(hil_infer_float(call, 1, 0));
    const hil_shape *x = &call->in[0].shape, *gate = &call->in[1].shape;
    bool whole = hil_shape_cols(gate) == 1 || hil_shape_cols(gate) == hil_shape_cols(x);
    if (!whole || hil_shape_rows(gate) != hil_shape_rows(x))
        return hil_fail(HIL_ERR_USAGE, "%s: gates %s are not one for each row of %s, or as many",
                        call->op->name, hil_infer_shape_text(gate).text,
                        hil_infer_shape_text(x).text);
    hil_infer_out(call, call->compute, x);
    return HIL_OK;
}

static bool is_softplus(const hil_op_call *call)
{
    return call->op == &hil_op_softplus_gate;
}

static float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* What a row is multiplied by, and its derivative by the gate. */
typedef struct opening {
    float factor, slope;
} opening;
static opening open_by(const hil_op_call *call, int64_t row)
{
    float one, x = *hil_row_read(&call->in[1], row, 1, &one), s = 1 / (1 + expf(-x));
    return is_softplus(call) ? (opening){softplus(x), s} : (opening){s, s * (1 - s)};
}

static void scale_row(const hil_op_call *call, int64_t row, const hil_tensor *from,
                      const hil_tensor *to, bool add)
{
    int64_t cols = hil_shape_cols(&call->in[0].shape);
    float buffer[PIECE], scaled[PIECE], gate = open_by(call, row).factor;
    for (int64_t c = 0; c < cols; c += PIECE) {
        int64_t n = cols - c < PIECE ? cols - c : PIECE, at = row * cols + c;
        hil_rows()->math.scale(scaled, hil_row_read(from, at, n, buffer), gate, n);
        hil_row_write(to, at, n, scaled, add);
    }
}

/* The gradient of the gate: its slope times x . dout. */
static void gate_row(const hil_op_call *call, int64_t row)
{
    int64_t cols = hil_shape_cols(&call->in[0].shape);
    float buffer[PIECE], other[PIECE], product[PIECE], dot = 0;
    for (int64_t c = 0; c < cols; c += PIECE) {
        int64_t n = cols - c < PIECE ? cols - c : PIECE, at = row * cols + c;
        hil_rows()->math.multiply(product, hil_row_read(&call->in[0], at, n, buffer),
                                  hil_row_read(&call->dout[0], at, n, other), n);
        dot += hil_rows()->math.sum(product, n);
    }
    dot *= open_by(call, row).slope;
    hil_row_write(&call->din[1], row, 1, &dot, call->din_add[1]);
}

/* Row `row` times what as many gates say: backward if `dout` has data. */
static void multiply_row(const hil_op_call *call, int64_t row, const hil_tensor *dout)
{
    int64_t cols = hil_shape_cols(&call->in[0].shape);
    float x[PIECE], gate[PIECE], s[PIECE], dy[PIECE], dgate[PIECE];
    bool soft = is_softplus(call);
    for (int64_t c = 0; c < cols; c += PIECE) {
        int64_t n = cols - c < PIECE ? cols - c : PIECE, at = row * cols + c;
        const float *from = hil_row_read(&call->in[0], at, n, x);
        const float *by = hil_row_read(&call->in[1], at, n, gate);
        hil_rows()->activation.sigmoid(s, by, n);
        const float *back = dout ? hil_row_read(dout, at, n, dy) : from;
        for (int64_t i = 0; i < n; ++i) {
            dgate[i] = soft ? back[i] * from[i] * s[i] : back[i] * from[i] * s[i] * (1 - s[i]);
            dy[i] = back[i] * (soft ? softplus(by[i]) : s[i]);
        }
        if (!dout) hil_row_write(&call->out[0], at, n, dy, false);
        if (dout && call->din[1].data) hil_row_write(&call->din[1], at, n, dgate, call->din_add[1]);
        if (dout && call->din[0].data) hil_row_write(&call->din[0], at, n, dy, call->din_add[0]);
    }
}

static bool has_many(const hil_op_call *call)
{
    return hil_shape_cols(&call->in[1].shape) != 1;
}

static void forward_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    for (int64_t r = task * TASK_ROWS; r < (task + 1) * TASK_ROWS && r < rows; ++r)
        if (has_many(call))
            multiply_row(call, r, NULL);
        else
            scale_row(call, r, &call->in[0], &call->out[0], false);
}

/* din[0] may be dout[0]: the gate's gradient comes first. */
static void backward_rows(void *context, int64_t task, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    for (int64_t r = task * TASK_ROWS; r < (task + 1) * TASK_ROWS && r < rows; ++r) {
        if (has_many(call)) {
            multiply_row(call, r, &call->dout[0]);
            continue;
        }
        if (call->din[1].data) gate_row(call, r);
        if (call->din[0].data) scale_row(call, r, &call->dout[0], &call->din[0], call->din_add[0]);
    }
}

static int64_t tasks(const hil_op_call *call)
{
    return (hil_shape_rows(&call->in[0].shape) + TASK_ROWS - 1) / TASK_ROWS;
}

static hil_status forward(hil_op_call *call)
{
    hil_pool_run(call->pool, forward_rows, call, tasks(call));
    return HIL_OK;
}

static hil_status backward(hil_op_call *call)
{
    hil_pool_run(call->pool, backward_rows, call, tasks(call));
    return HIL_OK;
}

const hil_op hil_op_sigmoid_gate = {
    .name = "sigmoid_gate",
    .keep_in = 3,
    .reuse = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

const hil_op hil_op_softplus_gate = {
    .name = "softplus_gate",
    .keep_in = 3,
    .reuse = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
