/* rope.c - rotary position embedding: pairs of numbers of each head turn together. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

#define TASK_ROWS 8

/* The numbers of a head that turn. */
static int64_t dims_of(const hil_op_call *call)
{
    const hil_rope_attr *attr = call->attr;
    return attr->dims ? attr->dims : call->in[0].shape.dim[3] - attr->first;
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 4));
    const hil_shape *shape = &call->in[0].shape;
    HIL_TRY(hil_infer_ids(call, 1, shape));
    int64_t dims = dims_of(call);
    if (dims % 2)
        return hil_fail(HIL_ERR_USAGE, "rope: heads of %lld numbers in %s, expected an even number",
                        (long long)dims, hil_infer_shape_text(shape).text);
    const hil_rope_attr *attr = call->attr;
    if (attr->first < 0 || dims < 0 || attr->first + dims > shape->dim[3])
        return hil_fail(HIL_ERR_USAGE, "rope: %lld numbers turn after %lld, but heads are %s",
                        (long long)dims, (long long)attr->first, hil_infer_shape_text(shape).text);
    if (attr->growth != 0 && (attr->growth_from < 1 || dims != shape->dim[3]))
        return hil_fail(HIL_ERR_USAGE, "rope: growth from %lld on, of %lld numbers of %s",
                        (long long)attr->growth_from, (long long)dims,
                        hil_infer_shape_text(shape).text);
    hil_infer_out(call, call->compute, shape);
    return HIL_OK;
}

/* Of sine and cosine. */
static float factor_at(const hil_rope_attr *attr, int32_t position)
{
    float factor = attr->factor > 0 ? (float)attr->factor : 1;
    if (attr->growth == 0) return factor;
    int64_t whole = (position + attr->growth_shift) / attr->growth_from;
    return factor * (float)(1 + attr->growth * log1p((double)whole));
}

/* Rotates `from` into `to`, forwards or (sign = -1) back. Rows are positions: (B * T, H * D). */
typedef struct job {
    const hil_op_call *call;
    const hil_tensor *from, *to;
    float sign;
    bool add;
} job;

/* Turns the pairs of one head, which are side by side, in place; `pair` has room for both halves.
 */
static void rotate_interleaved(float *head, float *pair, const float *cosine, const float *sine,
                               int64_t half)
{
    for (int64_t i = 0; i < half; ++i) {
        pair[i] = head[2 * i];
        pair[half + i] = head[2 * i + 1];
    }
    hil_rows()->position.rotate(pair, pair + half, cosine, sine, half);
    for (int64_t i = 0; i < half; ++i) {
        head[2 * i] = pair[i];
        head[2 * i + 1] = pair[half + i];
    }
}

static void rotate_rows(void *context, int64_t task, int thread)
{
    const job *j = context;
    const hil_shape *shape = &j->call->in[0].shape;
    const hil_rope_attr *attr = j->call->attr;
    const int32_t *positions = j->call->in[1].data;
    int64_t rows = shape->dim[0] * shape->dim[1], heads = shape->dim[2];
    int64_t half = dims_of(j->call) / 2, n = heads * shape->dim[3];
    float *row = hil_pool_scratch(j->call->pool, thread), *cosine = row + n, *sine = cosine + half;
    for (int64_t r = task * TASK_ROWS; r < (task + 1) * TASK_ROWS && r < rows; ++r) {
        float factor = factor_at(attr, positions[r]);
        hil_rows()->position.angles(cosine, sine, attr->frequency, (float)positions[r], half);
        hil_rows()->math.scale(sine, sine, j->sign * factor, half);
        if (factor != 1) hil_rows()->math.scale(cosine, cosine, factor, half);
        const float *x = hil_row_read(j->from, r * n, n, row);
        if (x != row) memcpy(row, x, (size_t)n * sizeof *row);
        for (float *head = row + attr->first; head < row + n; head += shape->dim[3]) {
            if (attr->interleaved)
                rotate_interleaved(head, sine + half, cosine, sine, half);
            else
                hil_rows()->position.rotate(head, head + half, cosine, sine, half);
        }
        hil_row_write(j->to, r * n, n, row, j->add);
    }
}

static hil_status run(const job *j)
{
    const hil_shape *shape = &j->call->in[0].shape;
    int64_t rows = shape->dim[0] * shape->dim[1], floats = (shape->dim[2] + 2) * shape->dim[3];
    HIL_TRY(hil_pool_reserve(j->call->pool, (size_t)floats * sizeof(float)));
    hil_pool_run(j->call->pool, rotate_rows, (void *)(uintptr_t)j,
                 (rows + TASK_ROWS - 1) / TASK_ROWS);
    return HIL_OK;
}

static hil_status forward(hil_op_call *call)
{
    return run(&(job){call, &call->in[0], &call->out[0], 1, false});
}

static hil_status backward(hil_op_call *call)
{
    if (!call->din[0].data) return HIL_OK;
    return run(&(job){call, &call->dout[0], &call->din[0], -1, call->din_add[0]});
}

const hil_op hil_op_rope = {
    .name = "rope",
    .attr_size = sizeof(hil_rope_attr),
    .keep_in = 2,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
