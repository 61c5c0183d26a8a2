/* probe_cpu.c - measures products, attention, memory and update on the CPU. */
#include "autograd/cost.h"
#include "base/clock.h"
#include "base/memory.h"
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
#define OPERATION_SECONDS 3e-6 /* overhead of the tape, about the same on every machine */

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

/* Several short runs after a warm-up: the slowest of the fastest quarter. Other processes slow runs
   down, and now and then one is faster than a processor stays under load. */
static hil_status time_of(action *act, void *context, double seconds, double *out)
{
    double start = hil_clock_now(), took[RUNS];
    size_t count = 0;
    HIL_TRY(act(context));
    while (count < RUNS && (count < RUNS_LEAST || hil_clock_now() - start < seconds)) {
        double began = hil_clock_now();
        HIL_TRY(act(context));
        took[count++] = hil_clock_now() - began;
    }
    qsort(took, count, sizeof *took, compare);
    *out = fmax(took[count / 4], 1e-9);
    return HIL_OK;
}

typedef struct product {
    hil_pool *pool;
    hil_gemm gemm;
} product;

static hil_status multiply(void *context)
{
    product *p = context;
    return hil_gemm_run(p->pool, &p->gemm);
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

/* The three products of a linear layer: y = x W^T, dx = dy W, dW += dy^T x. */
static hil_status probe_products(const probe *p, hil_dtype dtype, int64_t n, double *seconds,
                                 hil_work work[3])
{
    char *a = p->memory, *b = a + p->stream, *c = b + p->stream;
    fill(a, dtype, n * n);
    fill(b, dtype, n * n);
    memset(c, 0, (size_t)(n * n) * sizeof(float));
    hil_matrix x = hil_matrix_rows(a, dtype, n), y = hil_matrix_rows(b, dtype, n);
    hil_matrix form[3][2] = {{x, hil_matrix_transpose(y)}, {x, y}, {hil_matrix_transpose(x), y}};
    *seconds = 0;
    for (int i = 0; i < 3; ++i) {
        product job = {p->pool,
                       {.m = n,
                        .n = n,
                        .k = n,
                        .a = form[i][0],
                        .b = form[i][1],
                        .c = c,
                        .c_dtype = i < 2 ? dtype : HIL_F32,
                        .c_stride = n,
                        .add = i == 2}};
        double one;
        HIL_TRY(time_of(multiply, &job, p->seconds / 3, &one));
        *seconds += one;
        work[i] = (hil_work){0};
        hil_work_add_product(&work[i], &job.gemm, hil_pool_threads(p->pool));
    }
    return HIL_OK;
}

/* Sets the speed at which hil_cost_seconds gives these seconds for all of the work, of which so
   many operations are at that speed. What it adds for packing depends on the speed in turn. */
static void fit_speed(double *speed, double operations, const hil_work *work, int count,
                      const hil_speeds *speeds, double seconds)
{
    enum { ROUNDS = 4 };
    *speed = operations / seconds;
    for (int i = 0; i < ROUNDS; ++i) {
        double rest = 0;
        for (int j = 0; j < count; ++j) rest += hil_cost_rest(&work[j], speeds);
        *speed = operations / fmax(seconds - rest, seconds / 2);
    }
}

static hil_status probe_gemm(const probe *p, hil_dtype dtype, hil_speeds *out)
{
    double seconds;
    hil_work work[3];
    int64_t n = 512;
    HIL_TRY(probe_products(p, dtype, n, &seconds, work));
    while (seconds < 3 * RUN_SECONDS && 4 * (size_t)(n * n) * sizeof(float) <= p->stream) {
        n *= 2;
        HIL_TRY(probe_products(p, dtype, n, &seconds, work));
    }
    fit_speed(&out->gemm[dtype], work[0].gemm + work[1].gemm + work[2].gemm, work, 3, out, seconds);
    return HIL_OK;
}

static hil_status attend(void *context)
{
    hil_op_call *call = context;
    HIL_TRY(call->op->forward(call));
    return call->op->backward(call);
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
    double seconds;
    hil_work work[2];
    HIL_TRY(time_of(attend, &call, p->seconds, &seconds));
    hil_op_work(&call, false, hil_pool_threads(p->pool), &work[0]);
    hil_op_work(&call, true, hil_pool_threads(p->pool), &work[1]);
    fit_speed(&out->attention[dtype], work[0].attention + work[1].attention, work, 2, out, seconds);
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

static void zero_piece(void *context, int64_t i, int thread)
{
    (void)thread;
    const probe *p = context;
    memset(p->memory + (size_t)i * PIECE_BYTES, 0, PIECE_BYTES);
}

static void update_block(void *context, int64_t i, int thread)
{
    (void)thread;
    static const hil_rule_step step = {0.999f, 0.1f, 0.95f, 0.05f, 1e-4f, 1, 1e-8f, 1, 1e-4f};
    const probe *p = context;
    char *state = p->memory + piece_at(p, i, UPDATE_PIECE, STREAMS * p->stream);
    hil_block block = {.count = HIL_BLOCK,
                       .dtype = HIL_BF16,
                       .weight = state,
                       .rest = state + 2 * HIL_BLOCK,
                       .moment = {state + 4 * HIL_BLOCK, state + 8 * HIL_BLOCK},
                       .gradient = {state + 12 * HIL_BLOCK},
                       .gradients = 1};
    hil_rule_update(&hil_rules[HIL_ADAMW], &step, &block);
}

static hil_status update(void *context)
{
    probe *p = context;
    hil_pool_run(p->pool, update_block, p, updates(p));
    p->turn += updates(p);
    return HIL_OK;
}

static hil_status probe_update(probe *p, double *speed)
{
    double seconds;
    hil_pool_run(p->pool, zero_piece, p, (int64_t)(STREAMS * p->stream / PIECE_BYTES));
    HIL_TRY(time_of(update, p, p->seconds, &seconds));
    *speed = (double)(updates(p) * HIL_BLOCK) / seconds;
    return HIL_OK;
}

static hil_status probe_all(probe *p, hil_speeds *out)
{
    double seconds;
    HIL_TRY(probe_update(p, &out->update));
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
        HIL_TRY(probe_gemm(p, (hil_dtype)d, out));
        HIL_TRY(probe_attention(p, (hil_dtype)d, out));
    }
    return HIL_OK;
}

size_t hil_probe_cpu_room(uint64_t limit)
{
    size_t stream = STREAM_MOST;
    uint64_t available = hil_memory_available(); /* respects the control group's limit */
    if (!limit) limit = UINT64_MAX;
    while (stream > STREAM_LEAST && (stream > available / 64 || STREAMS * stream > limit))
        stream /= 2;
    return STREAMS * stream;
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

hil_status hil_probe_update(hil_pool *pool, const hil_probe_room *room, double *out)
{
    probe p;
    HIL_TRY(begin(&p, pool, room));
    return end(&p, probe_update(&p, out));
}

hil_status hil_probe_cpu(hil_pool *pool, const hil_probe_room *room, hil_speeds *out)
{
    probe p;
    HIL_TRY(begin(&p, pool, room));
    return end(&p, probe_all(&p, out));
}
