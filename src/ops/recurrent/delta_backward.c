/* delta_backward.c - the gradients of the gated delta rule and of state spaces.

   [Note: states again] Backward needs the state before every position. Forward saved those at the
   beginning of chunks; of the chunk at hand, this computes those at the beginning of every BLOCK
   positions, and of the block at hand all. */
#include "ops/recurrent/delta.h"

#include "ops/infer.h"
#include "ops/rows/rows.h"

#include <string.h>

#define BLOCK 16
#define BLOCKS (HIL_DELTA_CHUNK / BLOCK)

typedef struct work {
    hil_delta_inputs in;
    float *coarse, *fine;               /* states: (BLOCKS, D V), (BLOCK, D V) */
    float *wrong, *change;              /* of the positions of a block, (BLOCK, V) */
    float *dv, *dout, *dchange, *dread; /* (V) */
    float *row, *dots;                  /* (D) */
    float *decayed;                     /* in channel_delta: a state times exp(g), (D V) */
} work;

/* The gradients of A, of the bias and of D: of each sequence and head. */
typedef struct job {
    hil_delta d;
    int64_t share, parts; /* heads of values in a group, and the parts in which they are taken */
    int64_t at;           /* the first position of the chunk at hand */
    float *drate, *dbias, *dskip;
    float *state; /* the gradients of the states, (B, H, D V) */
    float *keys;  /* of q and of k at the chunk at hand: of each part, 2 (chunk, D) */
} job;

static int64_t layout(const job *j, float *memory, work *w)
{
    const hil_delta *d = &j->d;
    int64_t used = 0, state = d->key_dim * d->value_dim;
    hil_delta_layout(d, memory, &used, &w->in);
    w->coarse = hil_delta_take(memory, &used, BLOCKS * state);
    w->fine = hil_delta_take(memory, &used, BLOCK * state);
    w->wrong = hil_delta_take(memory, &used, BLOCK * d->value_dim);
    w->change = hil_delta_take(memory, &used, BLOCK * d->value_dim);
    float **values[] = {&w->dv, &w->dout, &w->dchange, &w->dread};
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i)
        *values[i] = hil_delta_take(memory, &used, d->value_dim);
    w->row = hil_delta_take(memory, &used, d->key_dim);
    w->dots = hil_delta_take(memory, &used, d->key_dim);
    w->decayed = hil_delta_take(memory, &used, d->decays > 1 ? state : 0);
    return used;
}

/* A chunk of one head. */
typedef struct part {
    int64_t b, head, at, count;
    float *dq, *dk; /* (chunk, D), summed over the heads of a part */
} part;

/* The states at the beginning of each block. */
static void find_coarse(const hil_delta *d, const work *w, const part *p)
{
    int64_t state = d->key_dim * d->value_dim, blocks = (p->count + BLOCK - 1) / BLOCK;
    size_t size = (size_t)state * sizeof(float);
    const float *saved = d->call->saved[0].data;
    memcpy(w->coarse,
           saved + ((p->b * d->heads + p->head) * d->chunks + p->at / HIL_DELTA_CHUNK) * state,
           size);
    for (int64_t n = 1; n < blocks; ++n) {
        float *to = w->coarse + n * state;
        memcpy(to, to - state, size);
        for (int64_t i = (n - 1) * BLOCK; i < n * BLOCK; ++i) {
            if (hil_delta_begins(d, p->b, p->at + i)) memset(to, 0, size);
            hil_delta_step(d, &w->in, i, to, w->wrong, w->change);
        }
    }
}

/* The states before each position of block n. */
static void find_fine(const hil_delta *d, const work *w, const part *p, int64_t n)
{
    int64_t state = d->key_dim * d->value_dim, left = p->count - n * BLOCK;
    int64_t count = left < BLOCK ? left : BLOCK;
    size_t size = (size_t)state * sizeof(float);
    memcpy(w->fine, w->coarse + n * state, size);
    for (int64_t i = 0; i < count; ++i) {
        float *at = w->fine + i * state;
        /* The last one is needed only for `wrong` and `change`: its own state stays. */
        float *next = i + 1 < count ? at + state : w->coarse + n * state;
        if (hil_delta_begins(d, p->b, p->at + n * BLOCK + i)) memset(at, 0, size);
        memcpy(next, at, size);
        hil_delta_step(d, &w->in, n * BLOCK + i, next, w->wrong + i * d->value_dim,
                       w->change + i * d->value_dim);
    }
}

static float dot(const float *x, const float *y, int64_t n)
{
    float out;
    hil_rows()->state.dots(&out, x, y, 1, n);
    return out;
}

/* x += factor * y */
static void add_scaled(float *x, float factor, const float *y, int64_t n)
{
    hil_rows()->state.update(x, 1, &factor, y, 1, n);
}

/* The sum of the products of all numbers of two states. */
static float match(const hil_delta *d, const float *x, const float *y)
{
    float sum = 0;
    if (d->skip) return dot(x, y, d->key_dim * d->value_dim);
    for (int64_t r = 0; r < d->key_dim; ++r)
        sum += dot(x + r * d->value_dim, y + r * d->value_dim, d->value_dim);
    return sum;
}

/* The gradients of b, a, A and the bias in channel_delta. */
static void write_decays(const job *j, const work *w, const part *p, int64_t i, float dbeta,
                         const float *after)
{
    const hil_delta *d = &j->d;
    const hil_op_call *call = d->call;
    int64_t gate = (p->b * d->length + p->at + i) * d->heads + p->head, n = d->decays;
    int64_t sequence = p->b * d->heads + p->head;
    const float *before = w->decayed;
    float db = dbeta * w->in.beta[i] * (1 - w->in.beta[i]);
    for (int64_t c = 0; c < n; ++c) {
        float dg = dot(after + c * d->value_dim, before + c * d->value_dim, d->value_dim);
        w->row[c] = dg * w->in.slope[i * n + c];
        j->drate[sequence] += dg * w->in.decay[i * n + c];
        j->dbias[sequence * n + c] += w->row[c];
    }
    if (call->din[1].data) hil_row_write(&call->din[1], gate, 1, &db, call->din_add[1]);
    if (call->din[2].data) hil_row_write(&call->din[2], gate * n, n, w->row, call->din_add[2]);
}

static void write_gates(const job *j, const work *w, const part *p, int64_t i, float dbeta,
                        float dkeep)
{
    const hil_delta *d = &j->d;
    const hil_op_call *call = d->call;
    int64_t gate = (p->b * d->length + p->at + i) * d->heads + p->head;
    int64_t sequence = p->b * d->heads + p->head;
    float ddecay = dkeep * w->in.keep[i], da = ddecay * w->in.slope[i];
    float db = dbeta * w->in.beta[i] * (1 - w->in.beta[i] / d->write);
    int gates = d->skip ? 1 : 2;
    if (d->skip) da = (dbeta - d->rate[p->head] * ddecay) * w->in.slope[i];
    if (!d->skip && call->din[1].data) hil_row_write(&call->din[1], gate, 1, &db, call->din_add[1]);
    if (call->din[gates].data) hil_row_write(&call->din[gates], gate, 1, &da, call->din_add[gates]);
    j->drate[sequence] += ddecay * w->in.decay[i];
    j->dbias[sequence] += da;
}

/* Position i of the chunk: `after` is the gradient of the state after it, and becomes that of the
   state before it. */
static void step_back(const job *j, const work *w, const part *p, int64_t i, float *after)
{
    const hil_delta *d = &j->d;
    const hil_op_call *call = d->call;
    const hil_row_kernel *rows = hil_rows();
    int64_t keys = d->key_dim, values = d->value_dim, row = p->b * d->length + p->at + i;
    const float *q = w->in.q + i * keys, *k = w->in.k + i * keys;
    const float *before = w->fine + i % BLOCK * keys * values;
    const float *change = w->change + i % BLOCK * values, *v = w->in.v + i * values;
    const float *wrong = d->skip ? v : w->wrong + i % BLOCK * values;
    float *dq = p->dq + i * keys, *dk = p->dk + i * keys, keep = d->decays > 1 ? 1 : w->in.keep[i];
    if (d->decays > 1) {
        hil_delta_decay(d, &w->in, i, before, w->decayed);
        before = w->decayed;
    }
    const float *dout =
        hil_row_read(&call->dout[0], (row * d->heads + p->head) * values, values, w->dout);
    /* y = S'q with S = keep * before + k change' */
    rows->state.dots(w->dots, before, dout, keys, values);
    add_scaled(dq, keep, w->dots, keys);
    add_scaled(dq, dot(change, dout, values), k, keys);
    rows->state.update(after, 1, q, dout, keys, values);
    rows->state.dots(w->dots, after, change, keys, values);
    add_scaled(dk, 1, w->dots, keys);
    /* change = beta (v - read), read = keep * before'k */
    rows->state.read(w->dchange, after, k, keys, values);
    float dbeta = dot(w->dchange, wrong, values);
    rows->math.scale(w->dv, w->dchange, w->in.beta[i], values);
    if (d->skip) {
        j->dskip[p->b * d->heads + p->head] += dot(dout, v, values);
        add_scaled(w->dv, d->skip[p->head], dout, values);
    }
    if (call->din[0].data)
        hil_row_write(&call->din[0], row * d->width + hil_delta_columns_of(d, p->head).v, values,
                      w->dv, call->din_add[0]);
    if (!d->skip) {
        rows->math.scale(w->dread, w->dv, -1, values);
        rows->state.dots(w->dots, before, w->dread, keys, values);
        add_scaled(dk, keep, w->dots, keys);
        rows->state.update(after, 1, k, w->dread, keys, values);
    }
    if (d->decays > 1)
        write_decays(j, w, p, i, dbeta, after);
    else
        write_gates(j, w, p, i, dbeta, match(d, after, before));
    if (hil_delta_begins(d, p->b, p->at + i))
        memset(after, 0, (size_t)(keys * values) * sizeof(float));
    else if (d->decays > 1)
        hil_delta_decay(d, &w->in, i, after, after);
    else
        rows->math.scale(after, after, keep, keys * values);
}

/* From the gradient of x to that of the row which, times `scale`, is x; 1 / `square` is the squared
   length of x. */
static void write_normalized(const hil_delta *d, const work *w, int64_t at, const float *x,
                             const float *dx, const float scale[2])
{
    const hil_op_call *call = d->call;
    float factor = scale[0], square = scale[1];
    float along = dot(x, dx, d->key_dim) * square;
    hil_rows()->math.scale(w->row, dx, factor, d->key_dim);
    add_scaled(w->row, -along * factor, x, d->key_dim);
    hil_row_write(&call->din[0], at, d->key_dim, w->row, call->din_add[0]);
}

/* The heads of a part, whose gradients of q and k are added in their order. */
static void heads_back(const job *j, const work *w, part *p, int64_t heads)
{
    const hil_delta *d = &j->d;
    int64_t state = d->key_dim * d->value_dim;
    memset(p->dq, 0, (size_t)(HIL_DELTA_CHUNK * 2 * d->key_dim) * sizeof(float));
    for (int64_t end = p->head + heads; p->head < end; ++p->head) {
        hil_delta_read(d, p->b, p->head, p->at, p->count, &w->in);
        find_coarse(d, w, p);
        for (int64_t n = (p->count - 1) / BLOCK; n >= 0; --n) {
            int64_t last = (n + 1) * BLOCK < p->count ? (n + 1) * BLOCK : p->count;
            find_fine(d, w, p, n);
            for (int64_t i = last - 1; i >= n * BLOCK; --i)
                step_back(j, w, p, i, j->state + (p->b * d->heads + p->head) * state);
        }
    }
}

/* The chunk at hand of a part of a group of heads in one sequence. */
static void part_back(void *context, int64_t task, int thread)
{
    const job *j = context;
    const hil_delta *d = &j->d;
    int64_t keys = d->key_dim, group = task / j->parts % d->key_heads, number = task % j->parts;
    int64_t first = number * j->share / j->parts, left = d->length - j->at;
    work w;
    layout(j, hil_pool_scratch(d->call->pool, thread), &w);
    part p = {.b = task / j->parts / d->key_heads, .head = group * j->share + first, .at = j->at};
    p.count = left < HIL_DELTA_CHUNK ? left : HIL_DELTA_CHUNK;
    p.dq = j->keys + task * HIL_DELTA_CHUNK * 2 * keys;
    p.dk = p.dq + HIL_DELTA_CHUNK * keys;
    heads_back(j, &w, &p, (number + 1) * j->share / j->parts - first);
    if (d->skip || !d->call->din[0].data) return;
    hil_delta_columns columns = hil_delta_columns_of(d, group * j->share);
    for (int64_t i = 0; i < p.count; ++i) {
        int64_t row = (p.b * d->length + j->at + i) * d->width;
        write_normalized(d, &w, row + columns.q, w.in.q + i * keys, p.dq + i * keys,
                         (float[]){w.in.q_scale[i], (float)keys});
        write_normalized(d, &w, row + columns.k, w.in.k + i * keys, p.dk + i * keys,
                         (float[]){w.in.k_scale[i], 1});
    }
}

/* The gradients of B and C at one position of the chunk at hand, for one group of a state space. */
static void add_parts(void *context, int64_t task, int thread)
{
    const job *j = context;
    const hil_delta *d = &j->d;
    int64_t count = d->length - j->at < HIL_DELTA_CHUNK ? d->length - j->at : HIL_DELTA_CHUNK;
    int64_t keys = d->key_dim, i = task % count, group = task / count % d->key_heads;
    int64_t b = task / count / d->key_heads, row = (b * d->length + j->at + i) * d->width;
    int64_t first = (b * d->key_heads + group) * j->parts;
    hil_delta_columns columns = hil_delta_columns_of(d, group * j->share);
    const int64_t column[] = {columns.q, columns.k};
    float *sum = hil_pool_scratch(d->call->pool, thread);
    for (int64_t of = 0; of < 2; ++of) {
        memset(sum, 0, (size_t)keys * sizeof(float));
        for (int64_t n = first; n < first + j->parts; ++n)
            add_scaled(sum, 1, j->keys + ((2 * n + of) * HIL_DELTA_CHUNK + i) * keys, keys);
        hil_row_write(&d->call->din[0], row + column[of], keys, sum, d->call->din_add[0]);
    }
}

static void take_scratch(const hil_op_call *call, size_t at, job *j)
{
    const hil_delta *d = &j->d;
    int64_t sequences = d->batch * d->heads;
    const struct {
        float **to;
        int64_t count;
    } each[] = {{&j->drate, sequences},
                {&j->dbias, sequences * d->decays},
                {&j->dskip, d->skip ? sequences : 0},
                {&j->state, sequences * d->key_dim * d->value_dim},
                {&j->keys, d->batch * d->key_heads * j->parts * HIL_DELTA_CHUNK * 2 * d->key_dim}};
    for (size_t i = 0; i < sizeof each / sizeof *each; ++i)
        *each[i].to =
            (float *)((char *)call->scratch + hil_scratch_add(&at, each[i].count, sizeof(float)));
}

hil_status hil_delta_backward(hil_op_call *call)
{
    job j = {0};
    work w;
    size_t at;
    HIL_TRY(hil_delta_prepare(call, &at, &j.d));
    int64_t sequences = j.d.batch * j.d.heads, groups = j.d.batch * j.d.key_heads;
    j.share = j.d.heads / j.d.key_heads;
    j.parts = hil_delta_parts(call, j.share);
    take_scratch(call, at, &j);
    HIL_TRY(hil_pool_reserve(call->pool, (size_t)layout(&j, NULL, &w) * sizeof(float)));
    if (!hil_pool_is_dry(call->pool)) {
        memset(j.state, 0, (size_t)(sequences * j.d.key_dim * j.d.value_dim) * sizeof(float));
        memset(j.drate, 0, (size_t)((char *)j.state - (char *)j.drate));
    }
    for (int64_t chunk = j.d.chunks - 1; chunk >= 0; --chunk) {
        int64_t left = j.d.length - chunk * HIL_DELTA_CHUNK;
        j.at = chunk * HIL_DELTA_CHUNK;
        hil_pool_run(call->pool, part_back, &j, groups * j.parts);
        if (!j.d.skip || !call->din[0].data) continue;
        int64_t count = left < HIL_DELTA_CHUNK ? left : HIL_DELTA_CHUNK;
        hil_pool_run(call->pool, add_parts, &j, groups * count);
    }
    float *partial[] = {j.drate, j.dbias, j.dskip};
    for (int i = 0; i < call->params; ++i)
        if (!call->param[i].trainable) partial[i] = NULL;
    if (j.d.decays == 1) return hil_op_gather_vectors(call, partial, j.d.batch, j.d.heads);
    float *bias[] = {NULL, partial[1]};
    partial[1] = NULL;
    HIL_TRY(hil_op_gather_vectors(call, partial, j.d.batch, j.d.heads));
    return hil_op_gather_vectors(call, bias, j.d.batch, j.d.heads * j.d.decays);
}
