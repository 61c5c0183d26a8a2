/* causal_conv.c - a convolution over the positions of each channel, with SiLU or plain: position t
   reads itself and the few before it. */
#include "ops/infer.h"
#include "ops/ops.h"
#include "ops/rows/rows.h"

#include <string.h>

typedef struct job {
    const hil_op_call *call;
    hil_grid grid; /* of rows */
    int64_t length, channels, size;
    const int32_t *first; /* NULL in generation */
    hil_tensor past;      /* rows before the first position */
    int64_t known;        /* of them, the last ones */
    float *vector;        /* the parameter, or its gradient */
    float *factor;        /* (size, C), row i: of the position i before */
    float *bias;          /* (C), behind them; NULL: there is none */
    float *sum, *partial; /* the gradient of `factor` and the bias, that of each block of rows; or
                             NULL */
} job;

/* What a thread holds of a sequence: position t is at row t modulo size. */
typedef struct window {
    float *x, *dy;         /* the input; the gradient before SiLU */
    float *y, *other;      /* a row each */
    int64_t next, next_dy; /* the first positions that are not held */
} window;

static bool is_cached(const hil_op_call *call)
{
    return call->op == &hil_op_causal_conv_cached || call->op == &hil_op_causal_conv_plain_cached;
}

static bool is_plain(const hil_op_call *call)
{
    return call->op == &hil_op_causal_conv_plain || call->op == &hil_op_causal_conv_plain_cached;
}

/* Rows of channels: the factors of each position, and the bias. */
static int64_t count_rows(const hil_op_call *call)
{
    return ((const hil_conv_attr *)call->attr)->size + (call->params > 1);
}

static hil_status infer(hil_op_call *call)
{
    const hil_conv_attr *attr = call->attr;
    HIL_TRY(hil_infer_float(call, 0, 3));
    const hil_shape *x = &call->in[0].shape;
    int64_t count = x->dim[2] * count_rows(call);
    if (attr->size < 1)
        return hil_fail(HIL_ERR_USAGE, "%s: a kernel of %lld positions", call->op->name,
                        (long long)attr->size);
    if (!is_cached(call)) HIL_TRY(hil_infer_ids(call, 1, x));
    HIL_TRY(hil_infer_vector(call, 0, x->dim[2] * attr->size));
    if (call->params > 1) HIL_TRY(hil_infer_vector(call, 1, x->dim[2]));
    hil_infer_out(call, call->compute, x);
    hil_scratch_add(&call->forward_scratch, x->dim[2] * attr->size, sizeof(float));
    hil_scratch_add(&call->forward_scratch, count, sizeof(float));
    call->backward_scratch = call->forward_scratch;
    hil_scratch_add(&call->backward_scratch, count, sizeof(float));
    hil_scratch_add(&call->backward_scratch, count * hil_row_grid(x->dim[0] * x->dim[1]).blocks,
                    sizeof(float));
    return HIL_OK;
}

static float *take(const hil_op_call *call, size_t *at, int64_t count)
{
    return (float *)((char *)call->scratch + hil_scratch_add(at, count, sizeof(float)));
}

/* Between the order of the parameter, channel by channel and the latest position last, and that of
   `factor`. */
static void transpose(void *context, int64_t i, int thread)
{
    (void)thread;
    const job *j = context;
    for (int64_t c = 0; c < j->channels; ++c) {
        float *by_channel = &j->vector[c * j->size + j->size - 1 - i];
        if (j->sum)
            *by_channel = j->sum[i * j->channels + c];
        else
            j->factor[i * j->channels + c] = *by_channel;
    }
}

/* `at`: the scratch that is left. */
static hil_status prepare(const hil_op_call *call, size_t *at, job *out)
{
    const hil_conv_attr *attr = call->attr;
    const hil_shape *x = &call->in[0].shape;
    *out = (job){.call = call,
                 .grid = hil_row_grid(x->dim[0] * x->dim[1]),
                 .length = x->dim[1],
                 .channels = x->dim[2],
                 .size = attr->size};
    if (is_cached(call)) {
        out->past = (hil_tensor){.dtype = call->compute, .data = (void *)(uintptr_t)attr->past};
        out->known = attr->length < attr->size - 1 ? attr->length : attr->size - 1;
    } else {
        out->first = call->in[1].data;
    }
    *at = 0;
    out->vector = take(call, at, out->channels * out->size);
    out->factor = take(call, at, out->channels * count_rows(call));
    if (call->params > 1) out->bias = out->factor + out->channels * out->size;
    if (out->bias) HIL_TRY(hil_op_vector(call, 1, out->bias));
    HIL_TRY(hil_op_vector(call, 0, out->vector));
    hil_pool_run(call->pool, transpose, out, out->size);
    return hil_pool_reserve(call->pool,
                            (size_t)((2 * out->size + 2) * out->channels) * sizeof(float));
}

static window window_of(const job *j, int thread)
{
    float *memory = hil_pool_scratch(j->call->pool, thread);
    int64_t rows = j->size * j->channels;
    return (window){.x = memory,
                    .dy = memory + rows,
                    .y = memory + 2 * rows,
                    .other = memory + 2 * rows + j->channels};
}

/* Row t of a window; before the first position there are negative ones. */
static float *row_of(const job *j, float *rows, int64_t t)
{
    return rows + (t + j->size) % j->size * j->channels;
}

/* The earliest position that position t of sequence b reads. */
static int64_t start_of(const job *j, int64_t b, int64_t t)
{
    int64_t least = j->first ? j->first[b * j->length + t] : -j->known;
    return t - j->size + 1 > least ? t - j->size + 1 : least;
}

/* Holds the inputs of all positions that position t reads, and adds them up. */
static void convolve(const job *j, window *w, int64_t b, int64_t t)
{
    int64_t n = j->channels, start = start_of(j, b, t), held = w->next;
    for (int64_t s = held > start ? held : start; s <= t; ++s) {
        bool before = s < 0;
        int64_t at = before ? (b + 1) * (j->size - 1) + s : b * j->length + s;
        float *x = row_of(j, w->x, s);
        const float *read = hil_row_read(before ? &j->past : &j->call->in[0], at * n, n, x);
        if (read != x) memcpy(x, read, (size_t)n * sizeof(float));
    }
    w->next = t + 1;
    if (j->bias)
        memcpy(w->y, j->bias, (size_t)n * sizeof(float));
    else
        memset(w->y, 0, (size_t)n * sizeof(float));
    for (int64_t s = start; s <= t; ++s)
        hil_rows()->conv.multiply_add(w->y, row_of(j, w->x, s), j->factor + (t - s) * n, n);
}

static void forward_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    window w = window_of(j, thread);
    int64_t n = j->channels, end = hil_grid_end(&j->grid, block);
    for (int64_t r = block * j->grid.block; r < end; ++r) {
        int64_t b = r / j->length, t = r % j->length;
        if (t == 0 || r == block * j->grid.block) w.next = -j->size;
        convolve(j, &w, b, t);
        float *y = w.y;
        if (!is_plain(j->call)) {
            y = hil_row_place(&j->call->out[0], r * n, false, w.other);
            hil_rows()->conv.silu(y, w.y, n);
        }
        hil_row_write(&j->call->out[0], r * n, n, y, false);
    }
}

static hil_status forward(hil_op_call *call)
{
    job j;
    size_t at;
    HIL_TRY(prepare(call, &at, &j));
    hil_pool_run(call->pool, forward_rows, &j, j.grid.blocks);
    return HIL_OK;
}

/* Holds the gradient before SiLU of position t; adds its part of the factors' to `sum`, unless that
   is NULL. */
static void find_gradient(const job *j, window *w, int64_t b, int64_t t, float *sum)
{
    int64_t n = j->channels, start = start_of(j, b, t);
    float *dy = row_of(j, w->dy, t);
    convolve(j, w, b, t);
    const float *dout = hil_row_read(&j->call->dout[0], (b * j->length + t) * n, n, w->other);
    if (is_plain(j->call))
        memcpy(dy, dout, (size_t)n * sizeof(float));
    else
        hil_rows()->conv.silu_back(dy, w->y, dout, n);
    w->next_dy = t + 1;
    for (int64_t s = start; s <= t && sum; ++s)
        hil_rows()->conv.multiply_add(sum + (t - s) * n, row_of(j, w->x, s), dy, n);
    for (int64_t c = 0; c < n && sum && j->bias; ++c) sum[j->size * n + c] += dy[c];
}

/* dx of position s of sequence b: the later positions that read it have their gradients. */
static void write_dx(const job *j, const window *w, int64_t b, int64_t s)
{
    const hil_op_call *call = j->call;
    int64_t n = j->channels, last = s + j->size < j->length ? s + j->size : j->length;
    memset(w->y, 0, (size_t)n * sizeof(float));
    for (int64_t t = s; t < last && j->first[b * j->length + t] <= s; ++t)
        hil_rows()->conv.multiply_add(w->y, row_of(j, w->dy, t), j->factor + (t - s) * n, n);
    hil_row_write(&call->din[0], (b * j->length + s) * n, n, w->y, call->din_add[0]);
}

/* Gradients of positions after the block are computed once more by the next one. */
static void backward_rows(void *context, int64_t block, int thread)
{
    const job *j = context;
    window w = window_of(j, thread);
    int64_t count = j->channels * count_rows(j->call), begin = block * j->grid.block;
    int64_t end = hil_grid_end(&j->grid, block);
    float *sum = j->partial ? j->partial + block * count : NULL;
    if (sum) memset(sum, 0, (size_t)count * sizeof(float));
    for (int64_t r = begin; r < end; ++r) {
        int64_t b = r / j->length, s = r % j->length;
        int64_t last = s + j->size < j->length ? s + j->size : j->length;
        if (s == 0 || r == begin) w.next = -j->size, w.next_dy = s;
        if (!j->call->din[0].data) last = s + 1;
        while (w.next_dy < last)
            find_gradient(j, &w, b, w.next_dy, r - s + w.next_dy < end ? sum : NULL);
        if (j->call->din[0].data) write_dx(j, &w, b, s);
    }
}

static hil_status backward(hil_op_call *call)
{
    job j;
    size_t at;
    HIL_TRY(prepare(call, &at, &j));
    int64_t count = j.channels * count_rows(call);
    bool biased = call->params > 1 && call->param[1].trainable;
    float *sum = take(call, &at, count);
    if (call->param[0].trainable || biased) j.partial = take(call, &at, count * j.grid.blocks);
    hil_pool_run(call->pool, backward_rows, &j, j.grid.blocks);
    if (!j.partial) return HIL_OK;
    j.sum = sum;
    hil_row_gather(call->pool, &(hil_gather){j.sum, j.partial, j.grid.blocks, count, false});
    hil_pool_run(call->pool, transpose, &j, j.size);
    if (call->param[0].trainable) HIL_TRY(hil_op_give_matrix(call, 0, j.vector));
    return biased ? hil_op_give_matrix(call, 1, sum + j.channels * j.size) : HIL_OK;
}

#define CONV                                                                                       \
    .attr_size = sizeof(hil_conv_attr), .keep_in = 3, .cheap = true, .infer = infer,               \
    .forward = forward, .backward = backward

const hil_op hil_op_causal_conv = {.name = "causal_conv", CONV};
const hil_op hil_op_causal_conv_plain = {.name = "plain causal_conv", CONV};

/* The last rows of `past` and x; those before the first position are never read. */
static void keep_rows(const hil_op_call *call)
{
    const hil_conv_attr *attr = call->attr;
    const int64_t *x = call->in[0].shape.dim;
    int64_t kept = attr->size - 1;
    hil_tensor past = {.dtype = call->compute, .data = (void *)(uintptr_t)attr->past};
    hil_tensor next = {.dtype = call->compute, .data = attr->next};
    for (int64_t b = 0; b < x[0]; ++b)
        for (int64_t i = 0; i < kept; ++i) {
            int64_t t = x[1] - kept + i; /* the position after the call began */
            const hil_tensor *from = t < 0 ? &past : &call->in[0];
            int64_t row = t < 0 ? (b + 1) * kept + t : b * x[1] + t;
            hil_row_copy(&next, (b * kept + i) * x[2], from, row * x[2], x[2], false);
        }
}

static hil_status forward_cached(hil_op_call *call)
{
    HIL_TRY(forward(call));
    if (!hil_pool_is_dry(call->pool)) keep_rows(call);
    return HIL_OK;
}

#define CACHED .attr_size = sizeof(hil_conv_attr), .infer = infer, .forward = forward_cached

const hil_op hil_op_causal_conv_cached = {.name = "cached causal_conv", CACHED};
const hil_op hil_op_causal_conv_plain_cached = {.name = "cached plain causal_conv", CACHED};
