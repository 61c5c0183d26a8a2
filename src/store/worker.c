/* worker.c - runs the store's kernels on memory of the device tier: at once on the CPU's pool, or
   queued on a device's stream. */
#include "base/alloc.h"
#include "io/align.h"
#include "store/worker.h"

#include <string.h>

#define TASK 65536 /* elements */

typedef struct zeroing {
    float *out;
    int64_t count;
} zeroing;

static void zero_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const zeroing *job = context;
    int64_t rest = job->count - i * TASK;
    memset(job->out + i * TASK, 0, (size_t)(rest < TASK ? rest : TASK) * 4);
}

static void run(hil_pool *pool, hil_task *task, void *job, int64_t tasks)
{
    if (pool)
        hil_pool_run(pool, task, job, tasks);
    else
        for (int64_t i = 0; i < tasks; ++i) task(job, i, 0);
}

hil_worker hil_worker_compute(const hil_store *store)
{
    return (hil_worker){store->device, HIL_STREAM_COMPUTE, store->opening.pool};
}

hil_status hil_worker_zero(const hil_worker *w, float *out, int64_t count)
{
    if (w->device) return w->device->queue->zero(w->device, w->stream, out, (size_t)count * 4);
    run(w->pool, zero_task, &(zeroing){out, count}, (count + TASK - 1) / TASK);
    return HIL_OK;
}

static void add_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const hil_addend *a = context;
    int64_t to = (i + 1) * TASK;
    hil_addend_run(a, i * TASK, to < a->count ? to : a->count);
}

hil_status hil_worker_add(const hil_worker *w, const hil_addend *addend)
{
    if (w->device) return hil_device_math_of(w->device)->add(w->device, w->stream, addend);
    hil_addend copy = *addend;
    run(w->pool, add_task, &copy, (copy.count + TASK - 1) / TASK);
    return HIL_OK;
}

static void round_task(void *context, int64_t i, int thread)
{
    (void)thread;
    hil_rounding_run(context, i);
}

hil_status hil_worker_round(const hil_worker *w, hil_rounding *what)
{
    if (w->device) return hil_device_math_of(w->device)->round(w->device, w->stream, what);
    run(w->pool, round_task, what, hil_rounding_blocks(what));
    return HIL_OK;
}

/* Squares of neighbouring whole blocks, or of a part of one block. */
typedef struct squaring {
    hil_block block; /* all elements of the job */
    int64_t first;   /* the block's first element, counted from the member's */
    double *lanes;   /* of the member's first block */
} squaring;

static void square_task(void *context, int64_t i, int thread)
{
    (void)thread;
    const squaring *job = context;
    int64_t number = job->first / HIL_BLOCK + i;
    int64_t from = number * HIL_BLOCK, to = from + HIL_BLOCK, end = job->first + job->block.count;
    if (from < job->first) from = job->first;
    if (to > end) to = end;
    hil_block block = job->block;
    size_t size = hil_dtype_size(block.sums ? HIL_F32 : block.dtype);
    size_t at = (size_t)(from - job->first) * size;
    for (int u = 0; u < block.gradients; ++u)
        block.gradient[u] = (const char *)block.gradient[u] + at;
    block.count = to - from;
    hil_block_square(&block, job->lanes + HIL_SQUARES * number);
}

static size_t lanes_bytes(const hil_unit *unit)
{
    return (size_t)hil_unit_blocks(unit) * HIL_SQUARES * sizeof(double);
}

double *hil_squares_lanes(const hil_store *store, const hil_worker *w)
{
    return w->device ? store->device_lanes : store->lanes;
}

hil_status hil_squares_begin(hil_store *store, const hil_worker *w, const hil_unit *unit)
{
    if (w->device)
        return w->device->queue->zero(w->device, w->stream, store->device_lanes, lanes_bytes(unit));
    if (!store->tiers->rehearse) memset(store->lanes, 0, lanes_bytes(unit));
    return HIL_OK;
}

hil_status hil_squares_add(const hil_store *store, const hil_worker *w, const hil_unit *unit,
                           int member, const hil_block *block, int64_t first)
{
    double *lanes = hil_squares_lanes(store, w);
    for (int m = 0; m < member; ++m) lanes += HIL_SQUARES * hil_member_blocks(&unit->member[m]);
    if (w->device)
        return hil_device_math_of(w->device)->square(w->device, w->stream, block, first, lanes);
    squaring job = {*block, first, lanes};
    int64_t tasks = (first + block->count - 1) / HIL_BLOCK - first / HIL_BLOCK + 1;
    run(w->pool, square_task, &job, tasks);
    return HIL_OK;
}

hil_status hil_squares_end(hil_store *store, const hil_worker *w, hil_unit *unit)
{
    int64_t blocks = hil_unit_blocks(unit);
    if (w->device)
        return hil_device_math_of(w->device)->squared(w->device, w->stream, store->device_lanes,
                                                      blocks, unit->square);
    for (int64_t b = 0; b < blocks && !store->tiers->rehearse; ++b)
        unit->square[b] = hil_lanes_add(&store->lanes[HIL_SQUARES * b]);
    return HIL_OK;
}

size_t hil_store_lanes(const hil_store *store)
{
    size_t most = 0;
    for (size_t u = 0; u < store->units; ++u) {
        size_t bytes = store->unit[u].trainable ? lanes_bytes(&store->unit[u]) : 0;
        if (bytes > most) most = bytes;
    }
    return store->options.training ? most : 0;
}

/* The squares are in memory that device and host share: the device writes them, and the host reads
   them after waiting. */
hil_status hil_worker_open(hil_store *store)
{
    int64_t blocks = 0;
    for (size_t u = 0; u < store->units; ++u) blocks += hil_unit_blocks(&store->unit[u]);
    size_t lanes = hil_store_lanes(store), bytes = (size_t)(blocks + 1) * sizeof(double);
    if (!lanes) return HIL_OK;
    HIL_TRY(HIL_ALLOC(lanes / sizeof(double), &store->lanes));
    if (store->device)
        HIL_TRY(store->device->heap->share(store->device, bytes, (void **)&store->squares));
    else
        HIL_TRY(HIL_ALLOC(blocks + 1, &store->squares));
    double *square = store->squares;
    for (size_t u = 0; u < store->units; ++u) {
        store->unit[u].square = square;
        square += hil_unit_blocks(&store->unit[u]);
    }
    if (!store->discrete) return HIL_OK;
    store->resident[HIL_DEVICE] += hil_align_up(lanes);
    return hil_tiers_take(store->tiers, HIL_DEVICE, lanes, "sums of squares",
                          (void **)&store->device_lanes);
}

void hil_worker_close(hil_store *store)
{
    if (store->device && store->squares)
        store->device->heap->unshare(store->device, store->squares);
    else
        hil_free(store->squares);
    hil_free(store->lanes);
    for (size_t u = 0; u < store->units; ++u) store->unit[u].square = NULL;
    store->squares = store->lanes = store->device_lanes = NULL;
}
