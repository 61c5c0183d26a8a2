/* ops_threads.c - operations that run later, on the thread of a stream.

   The operation first runs with a dry pool: that asks for its tiles. What it was given is queued
   with a copy of the call, and there the same operation asks again and gets the same answers. */
#include "ops/ops_threads.h"

#include "base/alloc.h"
#include "device/device_threads.h"

#include <string.h>

#define ATTR_MOST 64

/* A call on its way to the stream's thread. */
typedef struct later {
    hil_op_call call;
    bool backward;
    _Alignas(16) unsigned char attr[ATTR_MOST];
    size_t next, count;
    void *tile[]; /* weights and sums, in the order in which they are asked for */
} later;

/* A call that is being asked for its tiles. */
typedef struct asking {
    const hil_op_source *source;
    void *owner;
    later *later;
    size_t bytes;
} asking;

static hil_status note_tile(asking *a, void *data)
{
    size_t need = sizeof *a->later + (a->later->count + 1) * sizeof *a->later->tile;
    HIL_TRY(hil_grow((void **)&a->later, &a->bytes, need, 1));
    a->later->tile[a->later->count++] = data;
    return HIL_OK;
}

static hil_status ask_weight(void *owner, int param, int64_t tile, const void **data)
{
    asking *a = owner;
    HIL_TRY(a->source->weight_begin(a->owner, param, tile, data));
    return note_tile(a, (void *)(uintptr_t)*data);
}

static void end_weight(void *owner, int param, int64_t tile)
{
    asking *a = owner;
    a->source->weight_end(a->owner, param, tile);
}

static hil_status ask_gradient(void *owner, int param, int64_t tile, float **sum)
{
    asking *a = owner;
    HIL_TRY(a->source->gradient_begin(a->owner, param, tile, sum));
    return note_tile(a, *sum);
}

static void end_gradient(void *owner, int param, int64_t tile)
{
    asking *a = owner;
    a->source->gradient_end(a->owner, param, tile);
}

static void *next_tile(later *l)
{
    assert(l->next < l->count);
    return l->tile[l->next++];
}

static hil_status find_weight(void *owner, int param, int64_t tile, const void **data)
{
    (void)param;
    (void)tile;
    *data = next_tile(owner);
    return HIL_OK;
}

static hil_status find_gradient(void *owner, int param, int64_t tile, float **sum)
{
    (void)param;
    (void)tile;
    *sum = next_tile(owner);
    return HIL_OK;
}

static void end_nothing(void *owner, int param, int64_t tile)
{
    (void)owner;
    (void)param;
    (void)tile;
}

static hil_status run_op(hil_op_call *call, bool backward)
{
    return backward ? call->op->backward(call) : call->op->forward(call);
}

static hil_status run_later(void *args)
{
    static const hil_op_source source = {find_weight, end_nothing, find_gradient, end_nothing};
    later *l = args;
    HIL_TRY(hil_pool_create(&l->call.pool, 1));
    l->call.device = NULL;
    if (l->call.attr) l->call.attr = l->attr;
    l->call.source = &source;
    l->call.owner = l;
    hil_status status = run_op(&l->call, l->backward);
    hil_pool_destroy(l->call.pool);
    return status;
}

/* Asks for the tiles, then queues. */
static hil_status queue(hil_op_call *call, bool backward)
{
    static const hil_op_source source = {ask_weight, end_weight, ask_gradient, end_gradient};
    hil_status status = HIL_OK;
    hil_op_call dry = *call;
    asking a = {.source = call->source, .owner = call->owner};
    dry.pool = NULL;
    dry.source = &source;
    dry.owner = &a;
    HIL_TRY_DONE(hil_grow((void **)&a.later, &a.bytes, sizeof *a.later, 1));
    *a.later = (later){.call = *call, .backward = backward};
    HIL_TRY_DONE(hil_pool_create_dry(&dry.pool));
    HIL_TRY_DONE(run_op(&dry, backward));
    assert(call->op->attr_size <= ATTR_MOST);
    if (call->attr) memcpy(a.later->attr, call->attr, call->op->attr_size);
    HIL_TRY_DONE(hil_device_threads_call(call->device, HIL_STREAM_COMPUTE, run_later, a.later,
                                         sizeof *a.later + a.later->count * sizeof *a.later->tile));
done:
    hil_pool_destroy(dry.pool);
    hil_free(a.later);
    return status;
}

static hil_status infer(hil_op_call *call)
{
    return call->op->infer(call);
}

static hil_status forward(hil_op_call *call)
{
    return hil_pool_is_dry(call->pool) ? call->op->forward(call) : queue(call, false);
}

static hil_status backward(hil_op_call *call)
{
    if (!call->op->backward) return HIL_OK;
    return hil_pool_is_dry(call->pool) ? call->op->backward(call) : queue(call, true);
}

/* Of convert and sum. */
typedef struct numbers {
    hil_tensor to, from;
    bool add;
    double *sum;
} numbers;

static hil_status run_numbers(void *args)
{
    numbers *n = args;
    hil_pool *pool;
    HIL_TRY(hil_pool_create(&pool, 1));
    hil_status status = n->sum ? hil_op_sum(NULL, pool, &n->from, n->sum)
                               : hil_op_convert(NULL, pool, &n->to, &n->from, n->add);
    hil_pool_destroy(pool);
    return status;
}

static hil_status convert(hil_device *device, const hil_tensor *to, const hil_tensor *from,
                          bool add)
{
    numbers n = {.to = *to, .from = *from, .add = add};
    return hil_device_threads_call(device, HIL_STREAM_COMPUTE, run_numbers, &n, sizeof n);
}

static hil_status sum(hil_device *device, const hil_tensor *x, double *out)
{
    numbers n = {.from = *x, .sum = out};
    return hil_device_threads_call(device, HIL_STREAM_COMPUTE, run_numbers, &n, sizeof n);
}

const hil_device_ops hil_ops_threads = {infer, forward, backward, convert, sum};
