/* delta.c - the gated delta rule and state spaces forward, one position after the other. */
#include "ops/recurrent/delta.h"

#include "ops/infer.h"
#include "ops/rows/rows.h"

#include <math.h>
#include <string.h>

static bool is_cached(const hil_op_call *call)
{
    return call->op == &hil_op_delta_rule_cached || call->op == &hil_op_state_space_cached ||
           call->op == &hil_op_channel_delta_cached;
}

static hil_status infer_heads(const hil_op_call *call)
{
    const hil_delta_attr *attr = call->attr;
    const hil_shape *x = &call->in[0].shape, *b = &call->in[1].shape, *a = &call->in[2].shape;
    for (int i = 0; i < 3; ++i) HIL_TRY(hil_infer_float(call, i, 3));
    int64_t heads = b->dim[2], values = x->dim[2] - 2 * attr->key_heads * attr->key_dim;
    int64_t decays = hil_delta_by_channel(call) ? attr->key_dim : 1;
    const hil_shape expected = {3, {b->dim[0], b->dim[1], heads * decays}};
    if (!hil_shape_equal(a, &expected) || b->dim[0] != x->dim[0] || b->dim[1] != x->dim[1])
        return hil_fail(HIL_ERR_USAGE, "%s: %s and %s are not gates for %s", call->op->name,
                        hil_infer_shape_text(b).text, hil_infer_shape_text(a).text,
                        hil_infer_shape_text(x).text);
    if (attr->key_heads < 1 || attr->key_dim < (hil_delta_by_channel(call) ? 2 : 1) || heads < 1 ||
        heads % attr->key_heads || (decays > 1 && heads != attr->key_heads) || values < 1 ||
        values % heads)
        return hil_fail(HIL_ERR_USAGE,
                        "%s: %s does not hold %lld heads of %lld for q and k, and "
                        "%lld of values",
                        call->op->name, hil_infer_shape_text(x).text, (long long)attr->key_heads,
                        (long long)attr->key_dim, (long long)heads);
    const hil_channel_delta_attr *channels = hil_delta_by_channel(call) ? call->attr : NULL;
    if (channels && !(channels->floor <= 0))
        return hil_fail(HIL_ERR_USAGE,
                        "%s: the floor of its decays is %g: it must be below 0, or 0",
                        call->op->name, channels->floor);
    if (!(attr->write >= 0 && attr->write <= 2))
        return hil_fail(HIL_ERR_USAGE, "%s: the factor of its writes is %g: it must be from 0 to 2",
                        call->op->name, attr->write);
    HIL_TRY(hil_infer_vector(call, 0, heads));
    return hil_infer_vector(call, 1, heads * decays);
}

/* How many numbers parameter i has. */
static int64_t vector_count(const hil_op_call *call, int i, int64_t heads)
{
    const hil_delta_attr *attr = call->attr;
    return i == 1 && hil_delta_by_channel(call) ? heads * attr->key_dim : heads;
}

/* The input that holds `first`. */
static int documents_of(const hil_op_call *call)
{
    return hil_delta_is_space(call) ? 2 : 3;
}

hil_status hil_delta_infer(hil_op_call *call)
{
    const hil_delta_attr *attr = call->attr;
    const int64_t *x = call->in[0].shape.dim;
    int64_t heads = call->in[1].shape.dim[2], share = heads / attr->key_heads;
    int64_t values = (x[2] - 2 * attr->key_heads * attr->key_dim) / heads;
    int64_t parts = attr->key_heads * hil_delta_parts(call, share);
    if (!is_cached(call)) HIL_TRY(hil_infer_ids(call, documents_of(call), &call->in[0].shape));
    hil_infer_out(call, call->compute, &(hil_shape){4, {x[0], x[1], heads, values}});
    if (call->differentiate && !is_cached(call)) {
        call->saveds = 1;
        call->saved[0].dtype = HIL_F32;
        call->saved[0].shape =
            (hil_shape){4, {x[0], heads, hil_delta_chunks(x[1]), attr->key_dim * values}};
    }
    for (int i = 0; i < call->params; ++i)
        hil_scratch_add(&call->forward_scratch, vector_count(call, i, heads), sizeof(float));
    call->backward_scratch = call->forward_scratch;
    for (int i = 0; i < call->params; ++i)
        hil_scratch_add(&call->backward_scratch, x[0] * vector_count(call, i, heads),
                        sizeof(float));
    hil_scratch_add(&call->backward_scratch, x[0] * heads * attr->key_dim * values, sizeof(float));
    hil_scratch_add(&call->backward_scratch, x[0] * parts * HIL_DELTA_CHUNK * 2 * attr->key_dim,
                    sizeof(float));
    return HIL_OK;
}

static hil_status infer(hil_op_call *call)
{
    HIL_TRY(infer_heads(call));
    return hil_delta_infer(call);
}

hil_status hil_delta_prepare(const hil_op_call *call, size_t *at, hil_delta *out)
{
    const hil_delta_attr *attr = call->attr;
    const int64_t *y = call->out[0].shape.dim; /* B, T, H, V */
    *at = 0;
    *out = (hil_delta){.call = call,
                       .batch = y[0],
                       .length = y[1],
                       .key_heads = attr->key_heads,
                       .heads = y[2],
                       .key_dim = attr->key_dim,
                       .value_dim = y[3],
                       .width = call->in[0].shape.dim[2],
                       .chunks = hil_delta_chunks(y[1]),
                       .decays = 1,
                       .write = attr->write > 0 ? (float)attr->write : 1};
    if (hil_delta_by_channel(call)) {
        out->decays = attr->key_dim;
        out->floor = (float)((const hil_channel_delta_attr *)call->attr)->floor;
    }
    if (!is_cached(call)) out->first = call->in[documents_of(call)].data;
    float **vectors[] = {&out->rate, &out->bias, &out->skip};
    for (int i = 0; i < call->params; ++i) {
        *vectors[i] =
            (float *)((char *)call->scratch +
                      hil_scratch_add(at, vector_count(call, i, out->heads), sizeof(float)));
        HIL_TRY(hil_op_vector(call, i, *vectors[i]));
    }
    for (int64_t h = 0; h < out->heads && !hil_pool_is_dry(call->pool); ++h)
        out->rate[h] = expf(out->rate[h]);
    return HIL_OK;
}

float *hil_delta_take(float *memory, int64_t *used, int64_t count)
{
    int64_t at = *used;
    *used += (count + HIL_LANES - 1) / HIL_LANES * HIL_LANES;
    return memory ? memory + at : NULL;
}

void hil_delta_layout(const hil_delta *d, float *memory, int64_t *used, hil_delta_inputs *out)
{
    const int64_t n = HIL_DELTA_CHUNK;
    out->q = hil_delta_take(memory, used, n * d->key_dim);
    out->k = hil_delta_take(memory, used, n * d->key_dim);
    out->v = hil_delta_take(memory, used, n * d->value_dim);
    float **each[] = {&out->q_scale, &out->k_scale, &out->beta};
    float **channels[] = {&out->keep, &out->slope, &out->decay};
    for (size_t i = 0; i < sizeof each / sizeof *each; ++i)
        *each[i] = hil_delta_take(memory, used, n);
    for (size_t i = 0; i < sizeof channels / sizeof *channels; ++i)
        *channels[i] = hil_delta_take(memory, used, n * d->decays);
}

static void read_row(const hil_tensor *x, int64_t at, int64_t n, float *out)
{
    const float *read = hil_row_read(x, at, n, out);
    if (read != out) memcpy(out, read, (size_t)n * sizeof(float));
}

/* Divides a row by its length, and returns what it was multiplied by. */
static float normalize(float *x, int64_t n, float scale)
{
    float factor = 1 / sqrtf(hil_rows()->math.sum_squares(x, 0, n) + HIL_DELTA_EPS);
    hil_rows()->math.scale(x, x, factor * scale, n);
    return factor * scale;
}

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

static void read_gates(const hil_delta *d, int64_t gate, int64_t i, const hil_delta_inputs *in)
{
    const hil_op_call *call = d->call;
    int64_t head = gate % d->heads;
    float x, y = *hil_row_read(&call->in[2], gate, 1, &x) + d->bias[head];
    in->beta[i] = d->write * sigmoid(*hil_row_read(&call->in[1], gate, 1, &x));
    in->decay[i] = -d->rate[head] * softplus(y);
    in->slope[i] = -d->rate[head] * sigmoid(y);
}

/* Likewise of each channel of a key. */
static void read_decays(const hil_delta *d, int64_t gate, int64_t i, const hil_delta_inputs *in)
{
    const hil_op_call *call = d->call;
    int64_t head = gate % d->heads, n = d->decays;
    float x, *keep = in->keep + i * n, *slope = in->slope + i * n, *decay = in->decay + i * n;
    in->beta[i] = sigmoid(*hil_row_read(&call->in[1], gate, 1, &x));
    read_row(&call->in[2], gate * n, n, keep);
    for (int64_t c = 0; c < n; ++c) {
        float y = keep[c] + d->bias[head * n + c], rate = d->rate[head];
        float s = sigmoid(d->floor < 0 ? rate * y : y);
        float g = d->floor < 0 ? d->floor * s : -rate * softplus(y);
        slope[c] = d->floor < 0 ? g * (1 - s) * rate : -rate * s;
        decay[c] = d->floor < 0 ? slope[c] * y : g;
        keep[c] = expf(g);
    }
}

/* Likewise of a state space. */
static void read_step(const hil_delta *d, int64_t gate, int64_t i, const hil_delta_inputs *in)
{
    const hil_state_space_attr *attr = d->call->attr;
    int64_t head = gate % d->heads;
    float least = (float)attr->least, most = (float)attr->most;
    float x, y = *hil_row_read(&d->call->in[1], gate, 1, &x) + d->bias[head], step = softplus(y);
    in->slope[i] = step < least || step > most ? 0 : sigmoid(y);
    in->beta[i] = step < least ? least : step > most ? most : step;
    in->decay[i] = -d->rate[head] * in->beta[i];
}

void hil_delta_read(const hil_delta *d, int64_t b, int64_t head, int64_t at, int64_t count,
                    const hil_delta_inputs *in)
{
    const hil_op_call *call = d->call;
    hil_delta_columns columns = hil_delta_columns_of(d, head);
    float scale = 1 / sqrtf((float)d->key_dim);
    for (int64_t i = 0; i < count; ++i) {
        int64_t row = b * d->length + at + i, gate = row * d->heads + head;
        float *q = in->q + i * d->key_dim, *k = in->k + i * d->key_dim;
        read_row(&call->in[0], row * d->width + columns.q, d->key_dim, q);
        read_row(&call->in[0], row * d->width + columns.k, d->key_dim, k);
        read_row(&call->in[0], row * d->width + columns.v, d->value_dim, in->v + i * d->value_dim);
        if (d->skip) {
            read_step(d, gate, i, in);
        } else {
            in->q_scale[i] = normalize(q, d->key_dim, scale);
            in->k_scale[i] = normalize(k, d->key_dim, 1);
            d->decays > 1 ? read_decays(d, gate, i, in) : read_gates(d, gate, i, in);
        }
        if (d->decays == 1) in->keep[i] = expf(in->decay[i]);
    }
}

void hil_delta_decay(const hil_delta *d, const hil_delta_inputs *in, int64_t i, const float *state,
                     float *out)
{
    for (int64_t r = 0; r < d->key_dim; ++r)
        hil_rows()->math.scale(out + r * d->value_dim, state + r * d->value_dim,
                               in->keep[i * d->decays + r], d->value_dim);
}

void hil_delta_step(const hil_delta *d, const hil_delta_inputs *in, int64_t i, float *state,
                    float *wrong, float *change)
{
    const hil_row_kernel *rows = hil_rows();
    const float *k = in->k + i * d->key_dim, *v = in->v + i * d->value_dim;
    float keep = d->decays > 1 ? 1 : in->keep[i];
    if (d->decays > 1) hil_delta_decay(d, in, i, state, state);
    if (d->skip) {
        rows->math.scale(change, v, in->beta[i], d->value_dim);
    } else {
        rows->state.read(wrong, state, k, d->key_dim, d->value_dim);
        for (int64_t c = 0; c < d->value_dim; ++c) wrong[c] = v[c] - keep * wrong[c];
        rows->math.scale(change, wrong, in->beta[i], d->value_dim);
    }
    rows->state.update(state, keep, k, change, d->key_dim, d->value_dim);
}

typedef struct work {
    hil_delta_inputs in;
    float *state, *wrong, *change, *out;
} work;

static int64_t layout(const hil_delta *d, float *memory, work *w)
{
    int64_t used = 0;
    hil_delta_layout(d, memory, &used, &w->in);
    w->state = hil_delta_take(memory, &used, d->key_dim * d->value_dim);
    w->wrong = hil_delta_take(memory, &used, d->value_dim);
    w->change = hil_delta_take(memory, &used, d->value_dim);
    w->out = hil_delta_take(memory, &used, d->value_dim);
    return used;
}

static void run_chunk(const hil_delta *d, const work *w, int64_t sequence, int64_t at)
{
    const hil_op_call *call = d->call;
    int64_t b = sequence / d->heads, head = sequence % d->heads;
    int64_t count = d->length - at < HIL_DELTA_CHUNK ? d->length - at : HIL_DELTA_CHUNK;
    size_t size = (size_t)(d->key_dim * d->value_dim) * sizeof(float);
    hil_delta_read(d, b, head, at, count, &w->in);
    for (int64_t i = 0; i < count; ++i) {
        int64_t row = (b * d->length + at + i) * d->heads + head;
        if (hil_delta_begins(d, b, at + i)) memset(w->state, 0, size);
        if (i == 0 && call->saveds)
            memcpy((float *)call->saved[0].data +
                       (sequence * d->chunks + at / HIL_DELTA_CHUNK) * d->key_dim * d->value_dim,
                   w->state, size);
        hil_delta_step(d, &w->in, i, w->state, w->wrong, w->change);
        hil_rows()->state.read(w->out, w->state, w->in.q + i * d->key_dim, d->key_dim,
                               d->value_dim);
        if (d->skip)
            hil_rows()->state.update(w->out, 1, &d->skip[head], w->in.v + i * d->value_dim, 1,
                                     d->value_dim);
        hil_row_write(&call->out[0], row * d->value_dim, d->value_dim, w->out, false);
    }
}

/* All positions of one head of values in one sequence. */
static void run_head(void *context, int64_t sequence, int thread)
{
    const hil_delta *d = context;
    const hil_delta_attr *attr = d->call->attr;
    work w;
    layout(d, hil_pool_scratch(d->call->pool, thread), &w);
    int64_t count = d->key_dim * d->value_dim;
    size_t size = (size_t)count * sizeof(float);
    bool cached = is_cached(d->call);
    if (cached && attr->length > 0)
        memcpy(w.state, (const float *)attr->state + sequence * count, size);
    else
        memset(w.state, 0, size);
    for (int64_t at = 0; at < d->length; at += HIL_DELTA_CHUNK) run_chunk(d, &w, sequence, at);
    if (cached) memcpy((float *)attr->next + sequence * count, w.state, size);
}

hil_status hil_delta_forward(hil_op_call *call)
{
    hil_delta d;
    work w;
    size_t at;
    HIL_TRY(hil_delta_prepare(call, &at, &d));
    HIL_TRY(hil_pool_reserve(call->pool, (size_t)layout(&d, NULL, &w) * sizeof(float)));
    hil_pool_run(call->pool, run_head, &d, d.batch * d.heads);
    return HIL_OK;
}

const hil_op hil_op_delta_rule = {
    .name = "delta_rule",
    .attr_size = sizeof(hil_delta_attr),
    .keep_in = 15,
    .infer = infer,
    .forward = hil_delta_forward,
    .backward = hil_delta_backward,
};

const hil_op hil_op_delta_rule_cached = {
    .name = "cached delta_rule",
    .attr_size = sizeof(hil_delta_attr),
    .infer = infer,
    .forward = hil_delta_forward,
};

const hil_op hil_op_channel_delta = {
    .name = "channel_delta",
    .attr_size = sizeof(hil_channel_delta_attr),
    .keep_in = 15,
    .infer = infer,
    .forward = hil_delta_forward,
    .backward = hil_delta_backward,
};

const hil_op hil_op_channel_delta_cached = {
    .name = "cached channel_delta",
    .attr_size = sizeof(hil_channel_delta_attr),
    .infer = infer,
    .forward = hil_delta_forward,
};
