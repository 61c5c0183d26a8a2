/* ops_threads.c - operations of the test device: queued on a stream, executed asynchronously.

   [Note: steps] Every operation runs twice: at once with a dry pool, which acquires its tiles, and
   later for real, on a thread of its own. One step of the later run is queued on the stream per
   tile: the stream's thread lets the operation run with that tile until it needs the next one. So
   the stream uses a tile only between its acquire and its release, as kernels would; afterwards the
   same memory may hold another tile of the same operation. */
#include "ops/ops_threads.h"

#include "base/alloc.h"
#include "device/device_threads.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Whose turn it is: the operation's thread and the stream's thread never run at the same time. */
typedef enum turn { TURN_STREAM, TURN_OPERATION, TURN_OVER } turn;

typedef struct later {
    hil_op_call call;
    bool backward;
    void *attr; /* a copy; NULL: the operation has none */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    turn turn;
    void *tile;   /* the next tile for the operation */
    bool add;     /* to that tile */
    bool dropped; /* the device failed: no more tiles come */
    hil_status status;
    char message[512];
    struct later *next;
} later;

/* Operations that are not over. After a device fails, those left are never run and stay here. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static later *list;

static hil_status create_later(const hil_op_call *call, bool backward, later **out)
{
    later *l = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &l));
    l->call = *call;
    l->backward = backward;
    if (call->attr) {
        HIL_TRY_DONE(hil_alloc(call->op->attr_size, 1, &l->attr));
        memcpy(l->attr, call->attr, call->op->attr_size);
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    pthread_mutex_lock(&list_lock);
    l->next = list;
    list = l;
    pthread_mutex_unlock(&list_lock);
    *out = l;
    l = NULL;
done:
    hil_free(l);
    return status;
}

static void destroy_later(later *l)
{
    pthread_mutex_lock(&list_lock);
    later **at = &list;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    hil_free(l->attr);
    hil_free(l);
}

/* On the operation's thread: waits for the next tile. */
static hil_status next_tile(later *l, void **out)
{
    pthread_mutex_lock(&l->lock);
    l->turn = TURN_STREAM;
    pthread_cond_signal(&l->changed);
    while (l->turn != TURN_OPERATION) pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    *out = l->tile;
    return l->dropped ? hil_fail(HIL_ERR_INTERRUPTED, "given up") : HIL_OK;
}

static hil_status find_weight(void *owner, int param, int64_t tile, const void **data)
{
    (void)param;
    (void)tile;
    void *found;
    HIL_TRY(next_tile(owner, &found));
    *data = found;
    return HIL_OK;
}

static hil_status find_gradient(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    (void)param;
    (void)tile;
    void *found;
    HIL_TRY(next_tile(owner, &found));
    *sum = found;
    *add = ((later *)owner)->add;
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

static hil_status run_call(later *l)
{
    static const hil_op_source source = {find_weight, end_nothing, find_gradient, end_nothing};
    HIL_TRY(hil_pool_create(&l->call.pool, 1));
    l->call.device = NULL;
    l->call.attr = l->attr;
    l->call.source = &source;
    l->call.owner = l;
    hil_status status = run_op(&l->call, l->backward);
    hil_pool_destroy(l->call.pool);
    return status;
}

static void *run_later(void *argument)
{
    later *l = argument;
    l->status = run_call(l);
    if (l->status != HIL_OK) snprintf(l->message, sizeof l->message, "%s", hil_status_message());
    pthread_mutex_lock(&l->lock);
    l->turn = TURN_OVER;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

typedef struct step {
    later *later;
    void *tile;
    bool add, first, dropped;
} step;

/* On the stream's thread: waits until the operation needs another tile, or is over. */
static bool let_run(later *l, const step *s)
{
    bool begun = true;
    pthread_mutex_lock(&l->lock);
    l->tile = s->tile;
    l->add = s->add;
    l->dropped = s->dropped;
    l->turn = TURN_OPERATION;
    if (s->first) begun = pthread_create(&l->thread, NULL, run_later, l) == 0;
    pthread_cond_signal(&l->changed);
    while (begun && l->turn == TURN_OPERATION) pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    return begun;
}

static hil_status run_step(void *args)
{
    const step *s = args;
    later *l = s->later;
    if (!let_run(l, s)) return hil_fail(HIL_ERR_MEMORY, "cannot start a thread for an operation");
    if (l->turn != TURN_OVER) return HIL_OK;
    pthread_join(l->thread, NULL);
    hil_status status = l->dropped ? HIL_OK : l->status;
    if (status != HIL_OK) status = hil_fail(status, "%s", l->message);
    destroy_later(l);
    return status;
}

/* A call during its dry run, which acquires the tiles. */
typedef struct asking {
    const hil_op_source *source;
    void *owner;
    hil_device *device;
    later *later;
} asking;

static hil_status queue_step(const asking *a, step s)
{
    s.later = a->later;
    return hil_device_threads_call(a->device, HIL_STREAM_COMPUTE, run_step, &s, sizeof s);
}

static hil_status ask_weight(void *owner, int param, int64_t tile, const void **data)
{
    asking *a = owner;
    HIL_TRY(a->source->weight_begin(a->owner, param, tile, data));
    return queue_step(a, (step){.tile = (void *)(uintptr_t)*data});
}

static void end_weight(void *owner, int param, int64_t tile)
{
    asking *a = owner;
    a->source->weight_end(a->owner, param, tile);
}

static hil_status ask_gradient(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    asking *a = owner;
    HIL_TRY(a->source->gradient_begin(a->owner, param, tile, sum, add));
    return queue_step(a, (step){.tile = *sum, .add = *add});
}

static void end_gradient(void *owner, int param, int64_t tile)
{
    asking *a = owner;
    a->source->gradient_end(a->owner, param, tile);
}

/* Runs the call dry, and queues a step for each tile that it acquires. */
static hil_status queue(hil_op_call *call, bool backward)
{
    static const hil_op_source source = {ask_weight, end_weight, ask_gradient, end_gradient};
    hil_op_call dry = *call;
    asking a = {.source = call->source, .owner = call->owner, .device = call->device};
    HIL_TRY(hil_pool_create_dry(&dry.pool));
    dry.source = &source;
    dry.owner = &a;
    hil_status status = create_later(call, backward, &a.later);
    if (status == HIL_OK) status = queue_step(&a, (step){.first = true});
    if (status == HIL_OK) status = run_op(&dry, backward);
    if (status != HIL_OK && a.later) (void)!queue_step(&a, (step){.dropped = true});
    hil_pool_destroy(dry.pool);
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
