/* route.c - chooses the experts of each token and sorts the choices by expert. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <float.h>
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

static hil_status check_groups(const hil_op_call *call, const sizes *s)
{
    const hil_route_attr *attr = call->attr;
    int64_t groups = attr->groups;
    if (!groups) return HIL_OK;
    if (groups < 0 || groups > HIL_ROUTE_GROUPS || s->experts % groups || attr->groups_chosen < 1 ||
        attr->groups_chosen > groups || (attr->pairs && s->experts < 2 * groups) ||
        s->chosen > s->experts / groups * attr->groups_chosen)
        return hil_fail(HIL_ERR_USAGE,
                        "route: %lld of %lld experts cannot be chosen from %lld of %lld groups",
                        (long long)s->chosen, (long long)s->experts, (long long)attr->groups_chosen,
                        (long long)groups);
    return HIL_OK;
}

/* Scratch of forward: sums of probabilities and the numbers that are compared, of each block of
   rows, and the bias. */
typedef struct parts {
    float *sum, *compared, *bias; /* bias: NULL: none */
    size_t bytes;
} parts;

/* Without memory, at `base`, only bytes. */
static parts find_parts(const hil_op_call *call, char *base)
{
    sizes s = measure(call);
    parts out = {0};
    size_t sum = hil_scratch_add(&out.bytes, s.grid.blocks * s.experts, sizeof(float));
    size_t compared = hil_scratch_add(&out.bytes, s.grid.blocks * s.experts, sizeof(float));
    size_t bias = hil_scratch_add(&out.bytes, call->params ? s.experts : 0, sizeof(float));
    if (!base) return out;
    out.sum = (float *)(base + sum);
    out.compared = (float *)(base + compared);
    if (call->params) out.bias = (float *)(base + bias);
    return out;
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
    HIL_TRY(check_groups(call, &s));
    if (call->params) HIL_TRY(hil_infer_vector(call, 0, s.experts));
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
    call->forward_scratch = find_parts(call, NULL).bytes;
    return HIL_OK;
}

/* The largest probability that is not chosen yet; the first of equal ones. */
static int32_t next_best(const float *p, int64_t experts, const int32_t *chosen, int64_t count)
{
    int32_t best = -1;
    for (int32_t e = 0; e < (int32_t)experts; ++e) {
        bool taken = false;
        for (int64_t j = 0; j < count; ++j) taken = taken || chosen[j] == e;
        if (taken) continue;
        /* A number that is none (NaN) is taken last, so that K different experts are chosen. */
        if (best < 0 || p[e] > p[best] || (isnan(p[best]) && !isnan(p[e]))) best = e;
    }
    return best;
}

/* How good a group of `size` experts is. */
static float group_score(const float *x, int64_t size, bool pairs)
{
    int32_t first = next_best(x, size, NULL, 0);
    return pairs ? x[first] + x[next_best(x, size, &first, 1)] : x[first];
}

/* Makes the experts of all but the best groups worse than any other, also than NaN. */
static void leave_groups(const hil_route_attr *attr, float *x, int64_t experts)
{
    float score[HIL_ROUTE_GROUPS];
    int32_t best[HIL_ROUTE_GROUPS];
    bool kept[HIL_ROUTE_GROUPS] = {false};
    int64_t size = experts / attr->groups;
    for (int64_t g = 0; g < attr->groups; ++g)
        score[g] = group_score(x + g * size, size, attr->pairs);
    for (int64_t j = 0; j < attr->groups_chosen; ++j) {
        best[j] = next_best(score, attr->groups, best, j);
        kept[best[j]] = true;
    }
    for (int64_t e = 0; e < experts; ++e) {
        if (!kept[e / size])
            x[e] = -INFINITY;
        else if (isnan(x[e]))
            x[e] = -FLT_MAX;
    }
}

/* The numbers by which experts are chosen: the probabilities p, or what is made of them, or of the
   logits that it has already, in `room`. */
static const float *compare_by(const hil_op_call *call, const float *p, const float *bias,
                               float *room)
{
    const hil_route_attr *attr = call->attr;
    int64_t experts = hil_shape_cols(&call->in[0].shape);
    if (!bias && !attr->groups && !attr->by_logits) return p;
    if (!attr->by_logits) memcpy(room, p, (size_t)experts * sizeof *p);
    if (bias) hil_rows()->math.add(room, room, bias, experts);
    if (attr->groups) leave_groups(attr, room, experts);
    return room;
}

/* Turns logits into probabilities, in place. */
static void find_probabilities(const hil_route_attr *attr, float *p, int64_t experts)
{
    for (int64_t e = 0; e < experts && attr->sigmoid; ++e) p[e] = 1 / (1 + expf(-p[e]));
    if (attr->sigmoid) return;
    float all = hil_rows()->math.exp_sum(p, hil_rows()->math.max(p, experts), experts);
    hil_rows()->math.scale(p, p, 1 / all, experts);
}

/* What the chosen probabilities are divided by. */
static float divisor(const hil_route_attr *attr, float sum)
{
    if (!attr->normalized) return 1;
    return attr->sigmoid ? sum + (attr->eps > 0 ? (float)attr->eps : 1e-20f) : sum;
}

static float factor_of(const hil_route_attr *attr)
{
    return attr->scale > 0 ? (float)attr->scale : 1;
}

static void choose_row(const hil_op_call *call, const sizes *s, const parts *scratch, int64_t row)
{
    const hil_route_attr *attr = call->attr;
    float *p = (float *)call->saved[0].data + row * s->experts;
    float *weight = (float *)call->out[0].data + row * s->chosen;
    int32_t *chosen = (int32_t *)call->saved[1].data + row * s->chosen;
    const float *logits = hil_row_read(&call->in[0], row * s->experts, s->experts, p);
    float *room = scratch->compared + row / s->grid.block * s->experts;
    if (logits != p) memcpy(p, logits, (size_t)s->experts * sizeof *p);
    if (attr->by_logits) memcpy(room, p, (size_t)s->experts * sizeof *p);
    find_probabilities(attr, p, s->experts);
    const float *by = compare_by(call, p, scratch->bias, room);
    float sum = 0, factor = factor_of(attr);
    for (int64_t j = 0; j < s->chosen; ++j) {
        chosen[j] = next_best(by, s->experts, chosen, j);
        weight[j] = p[chosen[j]];
        sum += weight[j];
    }
    for (int64_t j = 0; j < s->chosen && attr->normalized; ++j) weight[j] /= divisor(attr, sum);
    for (int64_t j = 0; j < s->chosen && factor != 1; ++j) weight[j] *= factor;
}

static void choose_block(void *context, int64_t block, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    sizes s = measure(call);
    parts scratch = find_parts(call, call->scratch);
    float *sum = scratch.sum + block * s.experts;
    memset(sum, 0, (size_t)s.experts * sizeof *sum);
    for (int64_t row = block * s.grid.block; row < hil_grid_end(&s.grid, block); ++row) {
        choose_row(call, &s, &scratch, row);
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
    parts scratch = find_parts(call, call->scratch);
    if (call->params) HIL_TRY(hil_op_vector(call, 0, scratch.bias));
    hil_pool_run(call->pool, choose_block, call, s.grid.blocks);
    hil_pool_run(call->pool, sort_choices, call, 1);
    hil_row_gather(call->pool, &(hil_gather){(float *)call->out[3].data + s.experts, scratch.sum,
                                             s.grid.blocks, s.experts, false});
    if (call->ins == 2) hil_pool_run(call->pool, add_use, call, 1);
    return HIL_OK;
}

/* With q the gradients of the probabilities, that of logit e is p[e] * (q[e] - sum of p * q), or
   p[e] * (1 - p[e]) * q[e] with sigmoids. */
static void backward_row(void *context, int64_t row, int thread)
{
    (void)thread;
    const hil_op_call *call = context;
    const hil_route_attr *attr = call->attr;
    sizes s = measure(call);
    const float *p = (const float *)call->saved[0].data + row * s.experts;
    const int32_t *chosen = (const int32_t *)call->saved[1].data + row * s.chosen;
    const float *each = call->dout[3].data ? (const float *)call->dout[3].data + s.experts : NULL;
    float dw[HIL_ROUTE_CHOSEN], own[HIL_ROUTE_CHOSEN], sum = 0, along = 0, total = 0, all;
    const float *arrived = NULL;
    if (call->dout[0].data) arrived = hil_row_read(&call->dout[0], row * s.chosen, s.chosen, dw);
    for (int64_t j = 0; j < s.chosen; ++j) {
        sum += p[chosen[j]];
        own[j] = arrived ? arrived[j] * factor_of(attr) : 0;
        along += own[j] * p[chosen[j]];
    }
    all = divisor(attr, sum);
    for (int64_t j = 0; j < s.chosen && attr->normalized; ++j)
        own[j] = (own[j] - along / all) / all;
    for (int64_t j = 0; j < s.chosen; ++j) total += p[chosen[j]] * own[j];
    for (int64_t e = 0; e < s.experts && each; ++e) total += p[e] * each[e];
    for (int64_t e = 0; e < s.experts; ++e) {
        float q = each ? each[e] : 0;
        for (int64_t j = 0; j < s.chosen; ++j)
            if (chosen[j] == e) q += own[j];
        float dx = attr->sigmoid ? p[e] * (1 - p[e]) * q : p[e] * (q - total);
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
