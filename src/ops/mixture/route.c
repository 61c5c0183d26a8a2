/* route.c - chooses the experts of each token and sorts the choices by expert. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

/* Rows are tokens. The probabilities (rows, E) and the chosen experts (rows, K) are saved. */
typedef struct sizes {
    int64_t rows, experts, chosen;
    hil_grid grid;
} sizes;

static sizes measure(const hil_op_call *call)
{
    const hil_route_attr *attr = call->attr;
    int64_t rows = hil_shape_rows(&call->in[0].shape);
    return (sizes){rows, hil_shape_cols(&call->in[0].shape), attr->chosen, hil_row_grid(rows)};
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(hil_infer_float(call, 0, 0));
    sizes s = measure(call);
    if (s.chosen < 1 || s.chosen > s.experts || s.chosen > HIL_ROUTE_CHOSEN)
        return hil_fail(HIL_ERR_USAGE, "route: %lld of %lld experts cannot be chosen",
                        (long long)s.chosen, (long long)s.experts);
    const hil_shape use = {2, {2, s.experts}};
    if (call->ins == 2 &&
        (call->in[1].dtype != HIL_F32 || !hil_shape_equal(&call->in[1].shape, &use)))
        return hil_fail(HIL_ERR_USAGE, "route: use %s %s is not that of %lld experts",
                        hil_dtype_name(call->in[1].dtype),
                        hil_infer_shape_text(&call->in[1].shape).text, (long long)s.experts);
    hil_shape shape = call->in[0].shape;
    shape.dim[shape.ndim - 1] = s.chosen;
    hil_infer_out(call, HIL_F32, &shape);
    call->outs = 4;
    call->out[1] = (hil_tensor){HIL_I32, {1, {s.rows * s.chosen}}, NULL};
    call->out[2] = (hil_tensor){HIL_I32, {1, {s.experts + 1}}, NULL};
    call->out[3] = (hil_tensor){HIL_F32, use, NULL};
    call->saveds = 2;
    call->saved[0] = (hil_tensor){HIL_F32, {2, {s.rows, s.experts}}, NULL};
    call->saved[1] = (hil_tensor){HIL_I32, {2, {s.rows, s.chosen}}, NULL};
    hil_scratch_add(&call->forward_scratch, s.grid.blocks * s.experts, sizeof(float));
    return HIL_OK;
}

/* The largest probability that is not chosen yet; the first of equal ones. */
static int32_t next_best(const float *p, int64_t experts, const int32_t *chosen, int64_t count)
{
    int32_t best = -1;
    for (int32_t e = 0; e < (int32_t)experts; ++e) {
        bool taken = false;
        for (int64_t j = 0; j < count; ++j) taken = taken || chosen[j] == e;
        /* A number that is none (NaN) is taken last, so that K different experts are chosen. */
        if (!taken && (best < 0 || p[e] > p[best])) best = e;
    }
    return best;
}

static void choose_row(const hil_op_call *call, const sizes *s, int64_t row)
{
    const hil_route_attr *attr = call->attr;
    float *p = (float *)call->saved[0].data + row * s->experts;
    float *weight = (float *)call->out[0].data + row * s->chosen;
    int32_t *chosen = (int32_t *)call->saved[1].data + row * s->chosen;
    const float *logits = hil_row_read(&call->in[0], row * s->experts, s->experts, p);
    if (logits != p) memcpy(p, logits, (size_t)s->experts * sizeof *p);
    float all = hil_rows()->math.exp_sum(p, hil_rows()->math.max(p, s->experts), s->experts);
    hil_rows()->math.scale(p, p, 1 / all, s->experts);
    float sum = 0;
    for (int64_t j = 0; j < s->chosen; ++j) {
        chosen[j] = next_best(p, s->experts, chosen, j);
        weight[j] = p[chosen[j]];
        sum += weight[j];
    }
    for (int64_t j = 0; j < s->chosen && attr->normalized; ++j) weight[j] /= sum;
}

static void choose_block(void *context, int64_t block, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    sizes s = measure(call);
    float *sum = (float *)call->scratch + block * s.experts;
    memset(sum, 0, (size_t)s.experts * sizeof *sum);
    for (int64_t row = block * s.grid.block; row < hil_grid_end(&s.grid, block); ++row) {
        choose_row(call, &s, row);
        hil_rows()->math.add(sum, sum, (float *)call->saved[0].data + row * s.experts, s.experts);
    }
}

/* A counting sort: the choices of one expert stay in the order of tokens. */
static void sort_choices(void *context, int64_t task, int thread)
{
    (void)task, (void)thread;
    const hil_op_call *call = context;
    sizes s = measure(call);
    const int32_t *chosen = call->saved[1].data;
    int32_t *place = call->out[1].data, *begin = call->out[2].data;
    float *count = call->out[3].data;
    memset(begin, 0, (size_t)(s.experts + 1) * sizeof *begin);
    for (int64_t i = 0; i < s.rows * s.chosen; ++i) ++begin[chosen[i] + 1];
    for (int64_t e = 0; e < s.experts; ++e) {
        count[e] = (float)begin[e + 1];
        begin[e + 1] += begin[e];
    }
    for (int64_t i = 0; i < s.rows * s.chosen; ++i) place[i] = begin[chosen[i]]++;
    memmove(begin + 1, begin, (size_t)s.experts * sizeof *begin);
    begin[0] = 0;
}

static void add_use(void *context, int64_t task, int thread)
{
    (void)task, (void)thread;
    const hil_op_call *call = context;
    float *use = call->out[3].data;
    hil_rows()->math.add(use, use, call->in[1].data, 2 * measure(call).experts);
}

static hil_status forward(hil_op_call *call)
{
    sizes s = measure(call);
    hil_pool_run(call->pool, choose_block, call, s.grid.blocks);
    hil_pool_run(call->pool, sort_choices, call, 1);
    hil_row_gather(call->pool, &(hil_gather){(float *)call->out[3].data + s.experts, call->scratch,
                                             s.grid.blocks, s.experts, false});
    if (call->ins == 2) hil_pool_run(call->pool, add_use, call, 1);
    return HIL_OK;
}

/* With q the gradients of the probabilities, that of logit e is p[e] * (q[e] - sum of p * q). */
static void backward_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    const hil_route_attr *attr = call->attr;
    sizes s = measure(call);
    const float *p = (const float *)call->saved[0].data + row * s.experts;
    const int32_t *chosen = (const int32_t *)call->saved[1].data + row * s.chosen;
    const float *each = call->dout[3].data ? (const float *)call->dout[3].data + s.experts : NULL;
    float dw[HIL_ROUTE_CHOSEN], own[HIL_ROUTE_CHOSEN], sum = 0, along = 0, total = 0;
    const float *arrived = NULL;
    if (call->dout[0].data) arrived = hil_row_read(&call->dout[0], row * s.chosen, s.chosen, dw);
    for (int64_t j = 0; j < s.chosen; ++j) {
        sum += p[chosen[j]];
        own[j] = arrived ? arrived[j] : 0;
        along += own[j] * p[chosen[j]];
    }
    for (int64_t j = 0; j < s.chosen && attr->normalized; ++j)
        own[j] = (own[j] - along / sum) / sum;
    for (int64_t j = 0; j < s.chosen; ++j) total += p[chosen[j]] * own[j];
    for (int64_t e = 0; e < s.experts && each; ++e) total += p[e] * each[e];
    for (int64_t e = 0; e < s.experts; ++e) {
        float q = each ? each[e] : 0;
        for (int64_t j = 0; j < s.chosen; ++j)
            if (chosen[j] == e) q += own[j];
        float dx = p[e] * (q - total);
        hil_row_write(&call->din[0], row * s.experts + e, 1, &dx, call->din_add[0]);
    }
}

static void pass_use(void *context, int64_t task, int thread)
{
    (void)task, (void)thread;
    const hil_op_call *call = context;
    const int64_t count = 2 * measure(call).experts;
    if (call->dout[3].data)
        hil_row_copy(&call->din[1], 0, &call->dout[3], 0, count, call->din_add[1]);
    else if (!call->din_add[1])
        memset(call->din[1].data, 0, (size_t)count * sizeof(float));
}

static hil_status backward(hil_op_call *call)
{
    if (call->din[0].data) hil_pool_run(call->pool, backward_row, call, measure(call).rows);
    if (call->ins == 2 && call->din[1].data) hil_pool_run(call->pool, pass_use, call, 1);
    return HIL_OK;
}

const hil_op hil_op_route = {
    .name = "route",
    .attr_size = sizeof(hil_route_attr),
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
