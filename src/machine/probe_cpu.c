/* probe_cpu.c - measures products, attention, memory and update on the CPU. */
#include "autograd/cost.h"
#include "base/clock.h"
#include "base/memory.h"
#include "ops/elements/elements.h"
#include "ops/op_cost.h"
#include "ops/ops.h"
#include "optim/rule.h"
#include "machine/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_MOST ((size_t)512 << 20) /* bytes of each stream: more than caches */
#define STREAM_LEAST ((size_t)2 << 20)
#define PIECE_BYTES ((size_t)1 << 18)
#define UPDATE_PIECE ((size_t)HIL_BLOCK * 14) /* states of a block with bf16 */
enum { RUNS = 200, RUNS_LEAST = 5, STREAMS = 3, PIECES_LEAST = 8 };
#define RUN_SECONDS 1e-3       /* products grow until one takes this long */
#define OPERATION_SECONDS 1e-6 /* overhead of the tape, on Zen 5; up to 3 on slower processors */

#define ALONE_MOST 4.0 /* more is noise */

/* Memory that all measurements use, one after the other. */
typedef struct probe {
    hil_pool *pool;
    double seconds;
    char *memory;
    size_t stream; /* bytes of each stream */
    int64_t turn;  /* first piece of the next run in a ring of pieces */
} probe;

typedef hil_status action(void *context);

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double hil_probe_mean(double *seconds, int count)
{
    double sum = 0;
    int kept = count - (count + 9) / 10;
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    for (int i = 0; i < kept; ++i) sum += seconds[i];
    return sum / kept;
}

/* Of one of several short runs after a warm-up. */
static hil_status time_of(action *act, void *context, double seconds, double *out)
{
    double start = hil_clock_now(), took[RUNS];
    int count = 0;
    HIL_TRY(act(context));
    while (count < RUNS && (count < RUNS_LEAST || hil_clock_now() - start < seconds)) {
        double began = hil_clock_now();
        HIL_TRY(act(context));
        took[count++] = hil_clock_now() - began;
    }
    *out = fmax(hil_probe_mean(took, count), 1e-9);
    return HIL_OK;
}

#define MANY_ROWS 512
#define FEW_ROWS 32 /* of a product that packs more than it multiplies */

/* A product whose B is the next of a ring of matrices each time; with `all` also A and C. */
typedef struct product {
    hil_pool *pool;
    hil_gemm gemm; /* of the first ones */
    int64_t elements, count, turn;
    bool all;
} product;

static hil_status multiply(void *context)
{
    product *p = context;
    hil_gemm next = p->gemm;
    size_t at = (size_t)(p->turn++ % p->count * p->elements);
    next.b.data = (const char *)next.b.data + at * hil_dtype_size(next.b.dtype);
    if (!p->all) at = 0;
    next.a.data = (const char *)next.a.data + at * hil_dtype_size(next.a.dtype);
    next.c = (char *)next.c + at * hil_dtype_size(next.c_dtype);
    return hil_gemm_run(p->pool, &next);
}

static void fill(char *memory, hil_dtype dtype, int64_t count)
{
    float wave[256];
    for (int i = 0; i < 256; ++i) wave[i] = (float)(i % 7) * 0.25f - 0.5f;
    size_t size = hil_dtype_size(dtype);
    for (int64_t i = 0; i < count; i += 256)
        hil_dtype_from_f32(memory + (size_t)i * size, wave, dtype,
                           count - i < 256 ? count - i : 256);
}

/* The three products of a linear layer with x of `rows` x n: y = x W^T, dx = dy W, dW += dy^T x.
   Each time W is that of the next of `count` layers, and so are, of many rows, x and dW: several
   are not in a core's own caches, as in training. */
static hil_status probe_products(const probe *p, hil_dtype dtype, const int64_t size[3],
                                 double *seconds, hil_work work[3])
{
    int64_t rows = size[0], n = size[1], count = size[2];
    char *b = p->memory, *a = b + p->stream, *c = a + p->stream;
    fill(a, dtype, count * n * n);
    fill(b, dtype, count * n * n);
    memset(c, 0, (size_t)(count * n * n) * sizeof(float));
    hil_matrix x = hil_matrix_rows(a, dtype, n), y = hil_matrix_rows(b, dtype, n);
    hil_matrix form[3][2] = {{x, hil_matrix_transpose(y)}, {x, y}, {hil_matrix_transpose(x), y}};
    *seconds = 0;
    for (int i = 0; i < 3; ++i) {
        product job = {p->pool,
                       {.m = i < 2 ? rows : n,
                        .n = n,
                        .k = i < 2 ? n : rows,
                        .a = form[i][0],
                        .b = form[i][1],
                        .c = c,
                        .c_dtype = i < 2 ? dtype : HIL_F32,
                        .c_stride = n,
                        .add = i == 2},
                       .elements = n * n,
                       .count = count,
                       .all = rows >= MANY_ROWS};
        double one;
        HIL_TRY(time_of(multiply, &job, p->seconds / 3, &one));
        *seconds += one;
        work[i] = (hil_work){0};
        hil_work_add_product(&work[i], &job.gemm, hil_pool_threads(p->pool));
    }
    return HIL_OK;
}

/* What was timed: `count` calls that took `seconds` together. */
typedef struct timed {
    hil_dtype compute;
    int count;
    hil_work work[4];
    double seconds;
} timed;

/* Sets one of the speeds so that hil_cost_seconds gives these seconds for all of the work, of which
   so many operations are at that speed. What the work adds besides may depend on it in turn. */
static void fit_speed(double *speed, double operations, const timed *t, const hil_speeds *speeds)
{
    enum { ROUNDS = 4 };
    *speed = operations / t->seconds;
    for (int i = 0; i < ROUNDS; ++i) {
        double all = 0, fixed = speeds->op_call - HIL_COST_RUNS * speeds->pool_run;
        for (int j = 0; j < t->count; ++j)
            all += hil_cost_seconds(&t->work[j], speeds, t->compute) - fixed;
        double rest = all - operations / *speed;
        *speed = operations / fmax(t->seconds - rest, t->seconds / 4);
    }
}

/* Products of many rows tell how fast the CPU multiplies, those of few rows how fast it packs. Each
   of the two speeds is fitted with the other one known, in turns, at first as if packing took
   nothing. */
static hil_status probe_gemm(const probe *p, hil_dtype dtype, hil_speeds *out)
{
    enum { ROUNDS = 4, LEAST = 512, WEIGHTS = 32, NEAR_WEIGHTS = 4 };
    timed many = {.compute = dtype, .count = 3}, few = many;
    double flops = 0, packed = 0;
    int64_t n = LEAST, room = (int64_t)(p->stream / sizeof(float));
    out->pack[dtype] = HUGE_VAL;
    for (; many.seconds < 3 * RUN_SECONDS && n * n <= room; n *= 2) {
        int64_t weights = room / (n * n) < WEIGHTS ? room / (n * n) : WEIGHTS;
        int64_t size[] = {MANY_ROWS, n, weights};
        HIL_TRY(probe_products(p, dtype, size, &many.seconds, many.work));
        size[0] = FEW_ROWS;
        if (weights > NEAR_WEIGHTS) size[2] = NEAR_WEIGHTS;
        if (n == LEAST) HIL_TRY(probe_products(p, dtype, size, &few.seconds, few.work));
    }
    for (int i = 0; i < 3; ++i) {
        flops += many.work[i].gemm;
        packed += few.work[i].packed;
    }
    for (int i = 0; i < ROUNDS; ++i) {
        fit_speed(&out->gemm[dtype], flops, &many, out);
        fit_speed(&out->pack[dtype], packed, &few, out);
    }
    return HIL_OK;
}

static hil_status run_both(void *context)
{
    hil_op_call *call = context;
    HIL_TRY(call->op->forward(call));
    return call->op->backward(call);
}

/* Forward and backward. */
static hil_status time_call(const probe *p, hil_op_call *call, timed *out)
{
    *out = (timed){.compute = call->compute, .count = 2};
    HIL_TRY(time_of(run_both, call, p->seconds, &out->seconds));
    hil_op_work(call, false, hil_pool_threads(p->pool), &out->work[0]);
    hil_op_work(call, true, hil_pool_threads(p->pool), &out->work[1]);
    return HIL_OK;
}

/* As many heads as keep all threads busy, if there is memory for them: each is a task. */
static int64_t probe_heads(const probe *p, size_t head_bytes)
{
    enum { LEAST = 8, TENSORS = 10 };
    int64_t heads = LEAST;
    while (heads < hil_pool_threads(p->pool) &&
           TENSORS * (size_t)(2 * heads) * head_bytes <= STREAMS * p->stream)
        heads *= 2;
    return heads;
}

static hil_status probe_attention(const probe *p, hil_dtype dtype, hil_speeds *out)
{
    enum { B = 1, T = 256, D = 64 };
    hil_attention_attr attr = {.scale = 0.125};
    hil_op_call call = {.op = &hil_op_attention,
                        .attr = &attr,
                        .pool = p->pool,
                        .compute = dtype,
                        .differentiate = true,
                        .ins = 4,
                        .outs = 1};
    char *at = p->memory;
    hil_tensor heads = {dtype, {4, {B, T, probe_heads(p, T * D * sizeof(float)), D}}, NULL};
    size_t bytes = hil_tensor_bytes(&heads);
    for (int i = 0; i < 3; ++i, at += 2 * bytes) {
        call.in[i] = call.din[i] = heads;
        call.in[i].data = at;
        call.din[i].data = at + bytes;
        fill(at, dtype, hil_shape_count(&heads.shape));
    }
    call.in[3] = (hil_tensor){HIL_I32, {2, {B, T}}, at};
    memset(at, 0, hil_tensor_bytes(&call.in[3]));
    at += hil_tensor_bytes(&call.in[3]);
    HIL_TRY(call.op->infer(&call));
    call.out[0].data = at;
    call.dout[0] = heads;
    call.dout[0].data = at + bytes;
    fill(at + bytes, dtype, hil_shape_count(&heads.shape));
    call.saved[0].data = at + 2 * bytes;
    timed t;
    HIL_TRY(time_call(p, &call, &t));
    fit_speed(&out->attention[dtype], t.work[0].attention + t.work[1].attention, &t, out);
    return HIL_OK;
}

/* Threads that share a core, its caches or its power are faster while the others are idle. */
static hil_status probe_alone(const probe *p, hil_speeds *out)
{
    probe one = *p;
    hil_speeds speeds = *out;
    out->alone = 1;
    if (hil_pool_threads(p->pool) == 1) return HIL_OK;
    HIL_TRY(hil_pool_create(&one.pool, 1));
    hil_status status = probe_attention(&one, HIL_F32, &speeds);
    hil_pool_destroy(one.pool);
    double all = out->attention[HIL_F32] / hil_pool_threads(p->pool);
    out->alone = fmax(1, fmin(speeds.attention[HIL_F32] / all, ALONE_MOST));
    return status;
}

/* Gives the first inputs, the output and their gradients memory and numbers. */
static void fill_call(hil_op_call *call, int inputs, hil_tensor like, char *at)
{
    for (int i = 0; i <= inputs; ++i) {
        hil_tensor *value = i < inputs ? &call->in[i] : &call->out[0];
        hil_tensor *gradient = i < inputs ? &call->din[i] : &call->dout[0];
        for (int j = 0; j < 2; ++j, at += hil_tensor_bytes(&like)) {
            hil_tensor *tensor = j ? gradient : value;
            *tensor = like;
            tensor->data = at;
            fill(at, like.dtype, hil_shape_count(&like.shape));
        }
    }
}

/* Two operations stand for all that pass over elements: SwiGLU, which computes much for each of
   them, and rope, which computes little. What they read is in the cores' caches. */
static hil_status probe_vector(const probe *p, hil_dtype dtype, hil_speeds *out)
{
    enum { HEAD = 64, TENSORS = 6 };
    static float frequency[HEAD / 2];
    static int32_t position[HIL_ELEMENTS_TASK / HEAD];
    static const hil_rope_attr attr = {.frequency = frequency};
    hil_op_call swiglu = {.op = &hil_op_swiglu, .pool = p->pool, .compute = dtype, .ins = 2};
    hil_op_call rope = {.op = &hil_op_rope, .pool = p->pool, .compute = dtype, .ins = 2};
    int64_t most = (int64_t)(STREAMS * p->stream / TENSORS / sizeof(float)) / HIL_ELEMENTS_TASK;
    int64_t tasks = 2 * hil_pool_threads(p->pool);
    if (tasks > most) tasks = most;
    hil_tensor x = {dtype, {4, {1, HIL_ELEMENTS_TASK / HEAD, tasks, HEAD}}, NULL};
    rope.attr = &attr;
    rope.outs = swiglu.outs = 1;
    rope.differentiate = swiglu.differentiate = true;
    fill_call(&swiglu, 2, x, p->memory);
    fill_call(&rope, 1, x, p->memory);
    rope.in[1] = (hil_tensor){HIL_I32, {2, {1, HIL_ELEMENTS_TASK / HEAD}}, position};
    timed much, little;
    HIL_TRY(time_call(p, &swiglu, &much));
    HIL_TRY(time_call(p, &rope, &little));
    double operations = 0;
    much.count = 4;
    much.seconds += little.seconds;
    for (int i = 0; i < 4; ++i) {
        if (i > 1) much.work[i] = little.work[i - 2];
        operations += much.work[i].vector;
    }
    fit_speed(&out->vector[dtype], operations, &much, out);
    return HIL_OK;
}

/* Tasks of one run, which covers part of a ring of pieces: a few for each thread, and enough that
   dirty cache lines left at the end are a small fraction. */
static int64_t tasks(const probe *p, size_t bytes, size_t all)
{
    int64_t count = 2 * hil_pool_threads(p->pool), part = (int64_t)(all / bytes / 4);
    if (count < part) count = part;
    return count > PIECES_LEAST ? count : PIECES_LEAST;
}

/* The offset of task i of this turn in the ring. */
static size_t piece_at(const probe *p, int64_t i, size_t bytes, size_t all)
{
    return (size_t)(p->turn + i) % (all / bytes) * bytes;
}

/* c = a + b in pieces. */
static void add_piece(void *context, int64_t i, int thread)
{
    (void)thread;
    const probe *p = context;
    char *memory = p->memory + piece_at(p, i, PIECE_BYTES, p->stream);
    const float *a = (const float *)(void *)memory;
    const float *b = (const float *)(void *)(memory + p->stream);
    float *c = (float *)(void *)(memory + 2 * p->stream);
    for (size_t k = 0; k < PIECE_BYTES / sizeof *a; ++k) c[k] = a[k] + b[k];
}

static hil_status stream(void *context)
{
    probe *p = context;
    int64_t count = tasks(p, PIECE_BYTES, p->stream);
    hil_pool_run(p->pool, add_piece, p, count);
    p->turn += count;
    return HIL_OK;
}

/* c = a + b in one piece, again and again. */
static void add_cached(void *context, int64_t i, int thread)
{
    probe own = *(const probe *)context;
    own.turn = i;
    for (int round = 0; round < PIECES_LEAST; ++round) add_piece(&own, 0, thread);
}

/* A piece for each thread, if there is memory for as many. */
static int64_t cached_tasks(const probe *p)
{
    int64_t threads = hil_pool_threads(p->pool), pieces = (int64_t)(p->stream / PIECE_BYTES);
    return threads < pieces ? threads : pieces;
}

static hil_status stream_cached(void *context)
{
    probe *p = context;
    hil_pool_run(p->pool, add_cached, p, cached_tasks(p));
    return HIL_OK;
}

static hil_status copy(void *context)
{
    probe *p = context;
    for (int i = 0; i < PIECES_LEAST; ++i, ++p->turn) {
        size_t at = piece_at(p, 0, PIECE_BYTES, p->stream);
        memcpy(p->memory + p->stream + at, p->memory + at, PIECE_BYTES);
    }
    return HIL_OK;
}

static void nothing(void *context, int64_t i, int thread)
{
    (void)context, (void)i, (void)thread;
}

enum { CALLS = 16 };
static hil_status call_pool(void *context)
{
    const probe *p = context;
    for (int i = 0; i < CALLS; ++i)
        hil_pool_run(p->pool, nothing, NULL, 2 * hil_pool_threads(p->pool));
    return HIL_OK;
}

static int64_t updates(const probe *p)
{
    return tasks(p, UPDATE_PIECE, STREAMS * p->stream);
}

/* States are positive numbers that differ: moments in 8 bits take longer to code than zeros. */
static void fill_piece(void *context, int64_t i, int thread)
{
    (void)thread;
    const probe *p = context;
    float *out = (float *)(void *)(p->memory + (size_t)i * PIECE_BYTES);
    for (size_t k = 0; k < PIECE_BYTES / sizeof *out; ++k) out[k] = 1 / (float)(1 + k % 251);
}

typedef struct updating {
    probe *probe;
    hil_rule_kind rule;
} updating;

static void update_block(void *context, int64_t i, int thread)
{
    (void)thread;
    static const hil_rule_step step = {0.999f, 0.1f, 0.95f, 0.05f, 1e-4f, 1, 1e-8f, 1, 1e-4f};
    const updating *u = context;
    const probe *p = u->probe;
    char *state = p->memory + piece_at(p, i, UPDATE_PIECE, STREAMS * p->stream);
    hil_block block = {.count = HIL_BLOCK,
                       .dtype = HIL_BF16,
                       .weight = state,
                       .rest = state + 2 * HIL_BLOCK,
                       .moment = {state + 4 * HIL_BLOCK, state + 8 * HIL_BLOCK},
                       .gradient = {state + 12 * HIL_BLOCK},
                       .gradients = 1};
    hil_rule_update(&hil_rules[u->rule], &step, &block);
}

static hil_status update(void *context)
{
    updating *u = context;
    hil_pool_run(u->probe->pool, update_block, u, updates(u->probe));
    u->probe->turn += updates(u->probe);
    return HIL_OK;
}

static hil_status probe_update(probe *p, hil_rule_kind rule, double *speed)
{
    double seconds;
    hil_pool_run(p->pool, fill_piece, p, (int64_t)(STREAMS * p->stream / PIECE_BYTES));
    HIL_TRY(time_of(update, &(updating){p, rule}, p->seconds, &seconds));
    *speed = (double)(updates(p) * HIL_BLOCK) / seconds;
    return HIL_OK;
}

static hil_status probe_updates(probe *p, hil_speeds *out)
{
    HIL_TRY(probe_update(p, HIL_ADAMW, &out->update));
    return probe_update(p, HIL_ADAMW8BIT, &out->update_8bit);
}

static hil_status probe_all(probe *p, hil_speeds *out)
{
    double seconds;
    HIL_TRY(probe_updates(p, out));
    HIL_TRY(time_of(stream, p, p->seconds, &seconds));
    out->memory =
        STREAMS * (double)tasks(p, PIECE_BYTES, p->stream) * (double)PIECE_BYTES / seconds;
    HIL_TRY(time_of(stream_cached, p, p->seconds / 2, &seconds));
    out->cached =
        STREAMS * PIECES_LEAST * (double)PIECE_BYTES * (double)hil_pool_threads(p->pool) / seconds;
    HIL_TRY(time_of(copy, p, p->seconds, &seconds));
    out->to_device = out->to_host = PIECES_LEAST * (double)PIECE_BYTES / seconds;
    HIL_TRY(time_of(call_pool, p, p->seconds / 4, &seconds));
    out->threads = hil_pool_threads(p->pool);
    out->cpus = hil_pool_cpus();
    out->pool_run = seconds / CALLS;
    out->op_call = OPERATION_SECONDS + HIL_COST_RUNS * out->pool_run;
    for (int d = HIL_F32; d <= HIL_F16; ++d) {
        HIL_TRY(probe_vector(p, (hil_dtype)d, out));
        HIL_TRY(probe_gemm(p, (hil_dtype)d, out));
        HIL_TRY(probe_attention(p, (hil_dtype)d, out));
    }
    return probe_alone(p, out);
}

size_t hil_probe_cpu_room(uint64_t limit)
{
    uint64_t stream = hil_memory_available() / 64; /* respects the control group's limit */
    if (limit && stream > limit / STREAMS) stream = limit / STREAMS;
    if (stream > STREAM_MOST) stream = STREAM_MOST;
    if (stream < STREAM_LEAST) stream = STREAM_LEAST;
    return STREAMS * (size_t)(stream / PIECE_BYTES) * PIECE_BYTES;
}

static hil_status begin(probe *p, hil_pool *pool, const hil_probe_room *room)
{
    *p = (probe){.pool = pool, .seconds = room->seconds, .stream = room->memory / STREAMS};
    return hil_memory_map(STREAMS * p->stream, (void **)&p->memory);
}

static hil_status end(const probe *p, hil_status status)
{
    hil_memory_unmap(p->memory, STREAMS * p->stream);
    return status;
}

hil_status hil_probe_update(hil_pool *pool, const hil_probe_room *room, hil_speeds *out)
{
    probe p;
    HIL_TRY(begin(&p, pool, room));
    return end(&p, probe_updates(&p, out));
}

hil_status hil_probe_cpu(hil_pool *pool, const hil_probe_room *room, hil_speeds *out)
{
    probe p;
    HIL_TRY(begin(&p, pool, room));
    return end(&p, probe_all(&p, out));
}
