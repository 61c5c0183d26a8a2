/* reduce.c - reduce-scatter of gradients: the rank that keeps a slice adds all ranks' gradients for
   it, in the order of ranks, on the REDUCE link's thread while the pass goes on. */
#include "base/alloc.h"
#include "store/gradient.h"
#include "store/home.h"
#include "store/rank_exchange.h"
#include "store/reduce.h"
#include "store/window.h"
#include "store/worker.h"

#include <string.h>

/* The reduction of one chunk of one use's slice. */
typedef struct reduction {
    hil_unit *unit;
    int use;
    int64_t chunk;
    const float *sum; /* of the whole unit; NULL: this rank has none */
    char *buffer;     /* in the unit's dtype: pieces for all ranks, then pieces from all ranks */
    char *result;     /* in the unit's dtype */
} reduction;

struct hil_reduce {
    reduction *reduction;
    size_t next, room;
    hil_fence all;        /* over: all reductions so far */
    unsigned char *given; /* per member of every unit, bit per use: some rank has a gradient */
    size_t members;
};

/* Elements of a slice per exchange. The pieces for all ranks together are about as large as a
   chunk, for any number of ranks. */
static int64_t piece_count(const hil_store *store, const hil_unit *unit)
{
    int64_t count = store->plan->chunk / store->options.ranks / HIL_PAD * HIL_PAD;
    if (count < HIL_PIECE_LEAST) count = HIL_PIECE_LEAST;
    return count < unit->slice ? count : unit->slice;
}

/* Runs on the REDUCE link's thread, or queues on its stream. */
static hil_worker worker_of(const hil_store *store)
{
    return (hil_worker){.device = store->device, .stream = HIL_STREAM_REDUCE};
}

static hil_status zero(const hil_worker *w, void *to, size_t bytes)
{
    if (w->device) return w->device->queue->zero(w->device, w->stream, to, bytes);
    memset(to, 0, bytes);
    return HIL_OK;
}

/* Rounds elements [first, first + count) of every rank's slice into the buffer: (ranks, count). */
static hil_status pack(const hil_store *store, const reduction *r, int64_t first, int64_t count)
{
    hil_worker worker = worker_of(store);
    hil_dtype dtype = r->unit->dtype;
    size_t bytes = (size_t)count * hil_dtype_size(dtype);
    if (!r->sum) return zero(&worker, r->buffer, (size_t)store->options.ranks * bytes);
    hil_rounding rounding = {.dtype = dtype};
    for (int rank = 0; rank < store->options.ranks; ++rank) {
        rounding.range[rounding.ranges++] =
            (hil_rounding_range){.count = count,
                                 .sum = r->sum + rank * r->unit->slice + first,
                                 .out = r->buffer + (size_t)rank * bytes};
        if (rounding.ranges < HIL_ROUNDING_RANGES && rank + 1 < store->options.ranks) continue;
        HIL_TRY(hil_worker_round(&worker, &rounding));
        rounding.ranges = 0;
    }
    return HIL_OK;
}

static hil_status add(const hil_store *store, const hil_tensor *out, const void *parts)
{
    hil_device *device = store->device;
    int ranks = store->options.ranks;
    if (device)
        return hil_device_math_of(device)->reduce(device, HIL_STREAM_REDUCE, out, parts, ranks);
    hil_kernels_reduce(out, parts, ranks);
    return HIL_OK;
}

/* Adds the squares of the chunk. Members that no rank has a gradient for are zero. */
static hil_status square(hil_store *store, const reduction *r)
{
    hil_unit *unit = r->unit;
    hil_worker worker = worker_of(store);
    int64_t first = hil_unit_begin(store, unit) + r->chunk * store->plan->chunk;
    int64_t count = hil_chunk_count(store, unit, r->chunk), last = first + count;
    if (r->chunk == 0) HIL_TRY(hil_squares_begin(store, &worker, unit));
    for (int m = 0; m < unit->members; ++m) {
        const hil_member *member = &unit->member[m];
        int64_t from, to;
        if (!hil_member_overlap(member, first, last, &from, &to)) continue;
        hil_block block = {.count = to - from, .dtype = unit->dtype, .gradients = 1};
        block.gradient[0] = r->result + (from - first) * (int64_t)hil_dtype_size(unit->dtype);
        HIL_TRY(hil_squares_add(store, &worker, unit, m, &block, from - member->offset));
    }
    bool end = r->chunk * store->plan->chunk + count == unit->slice;
    return end ? hil_squares_end(store, &worker, unit) : HIL_OK;
}

static hil_status reduce_pieces(hil_store *store, const reduction *r)
{
    const hil_unit *unit = r->unit;
    size_t size = hil_dtype_size(unit->dtype);
    int64_t most = piece_count(store, unit), count = hil_chunk_count(store, unit, r->chunk);
    char *in = r->buffer + (size_t)(store->options.ranks * most) * size;
    for (int64_t done = 0; done < count; done += most) {
        int64_t n = count - done < most ? count - done : most;
        HIL_TRY(pack(store, r, r->chunk * store->plan->chunk + done, n));
        HIL_TRY(hil_exchange_all_to_all(store, r->buffer, in, (size_t)n * size));
        hil_tensor out = {unit->dtype, {1, {n}}, r->result + (size_t)done * size};
        HIL_TRY(add(store, &out, in));
    }
    return unit->uses == 1 ? square(store, r) : HIL_OK; /* several uses: in norm.c, after adding */
}

static hil_status reduce(void *context, int64_t index)
{
    hil_store *store = context;
    return hil_exchange_wait(store, reduce_pieces(store, &store->reduce->reduction[index]));
}

/* Seconds in the rehearsal, without the network's: rounding reads fp32 and writes the dtype; adding
   reads the dtype. */
static double seconds_of(const hil_store *store, const hil_unit *unit, int64_t count)
{
    const hil_speeds *speeds = store->opening.speeds;
    if (!speeds) return 0;
    double size = (double)hil_dtype_size(unit->dtype);
    double moved = (double)(count * store->options.ranks) * (4 + 2 * size);
    return moved / speeds->memory;
}

/* Submits the reduction of a chunk, and the copy-out of its result to its home. After `after` the
   sum is complete and the buffer free; after `before` the home may be overwritten. */
static hil_status give_chunk(hil_store *store, const reduction *given, const hil_fence *after,
                             const hil_fence *before, hil_fence *reduced)
{
    struct hil_reduce *s = store->reduce;
    hil_unit *unit = given->unit;
    hil_use *use = &unit->use[given->use];
    size_t size = hil_dtype_size(unit->dtype), index = s->next++;
    int64_t count = hil_merged_count(store, unit, given->chunk);
    size_t bytes = (size_t)hil_chunk_count(store, unit, given->chunk) * size;
    bool home = use->home.tier == HIL_DEVICE;
    reduction *r = &s->reduction[index];
    hil_fence room = *before;
    *r = *given;
    if (home) {
        r->result = use->home.memory + (size_t)(r->chunk * store->plan->chunk) * size;
    } else {
        HIL_TRY(hil_window_room(store, bytes));
        HIL_TRY(hil_buffers_take_after(store->window, bytes, (void **)&r->result, &room));
    }
    hil_job job = {.link = HIL_LINK_REDUCE,
                   .after = *after,
                   .run = reduce,
                   .context = store,
                   .index = (int64_t)index,
                   .bytes = (uint64_t)(store->options.ranks - 1) * (uint64_t)count * size,
                   .name = "reduce"};
    hil_fence_join(&job.after, &room);
    job.seconds = seconds_of(store, unit, count);
    hil_gradient_chunk leaving = {.unit = unit, .use = use, .data = r->result, .before = *before};
    hil_status status = hil_exchange_submit(store, &job, &leaving.made);
    hil_fence_join(reduced, &leaving.made);
    hil_fence_join(&use->left, &leaving.made);
    if (home) return status;
    if (status == HIL_OK) status = hil_gradient_send(store, &leaving, r->chunk);
    hil_fence_join(&room, &use->left);
    hil_buffers_give_after(store->window, r->result, &room);
    return status;
}

static hil_status give_chunks(hil_store *store, hil_unit *unit, int i, hil_fence *reduced)
{
    hil_use *use = &unit->use[i];
    size_t bytes =
        (size_t)(2 * store->options.ranks * piece_count(store, unit)) * hil_dtype_size(unit->dtype);
    hil_fence before = use->left, after;
    hil_fence_join(&before, &unit->settled);
    use->left = (hil_fence){0};
    reduction r = {.unit = unit, .use = i, .sum = use->summing ? use->sum.data : NULL};
    HIL_TRY(hil_window_room(store, bytes));
    HIL_TRY(hil_buffers_take_after(store->window, bytes, (void **)&r.buffer, &after));
    hil_fence used = after;
    hil_fence_join(&after, &use->sum.ready);
    hil_status status = HIL_OK;
    for (; r.chunk * store->plan->chunk < unit->slice && status == HIL_OK; r.chunk += store->merge)
        status = give_chunk(store, &r, &after, &before, reduced);
    hil_fence_join(&used, reduced);
    hil_buffers_give_after(store->window, r.buffer, &used);
    return status;
}

static size_t chunks_of(const hil_store *store, const hil_unit *unit)
{
    return (size_t)((unit->slice + store->plan->chunk - 1) / store->plan->chunk);
}

/* A use that was declared after the store was opened: gives it a home and room for its reductions.
 */
static hil_status open_late(hil_store *store, hil_unit *unit, hil_use *use)
{
    struct hil_reduce *s = store->reduce;
    HIL_TRY(hil_home_open_late(store, unit, &use->home));
    HIL_TRY(hil_reduce_wait(store));
    return HIL_GROW(&s->reduction, &s->room, s->room + chunks_of(store, unit));
}

hil_status hil_reduce_give(hil_store *store, hil_unit *unit, int i)
{
    struct hil_reduce *s = store->reduce;
    hil_use *use = &unit->use[i];
    assert(!use->given && !use->pins);
    if (!use->home.exists) HIL_TRY(open_late(store, unit, use));
    /* Reductions of a step that was dropped may still be in flight. */
    if (s->next == 0) HIL_TRY(hil_reduce_wait(store));
    HIL_TRY(hil_window_use(store, hil_entity(store, unit, i)));
    hil_fence reduced = {0};
    ++use->pins;
    hil_status status = use->summing ? hil_sum_fill(store, unit, i) : HIL_OK;
    if (status == HIL_OK) status = give_chunks(store, unit, i, &reduced);
    --use->pins;
    hil_fence_join(&s->all, &reduced);
    hil_fence_join(&use->sum.ready, &reduced);
    HIL_TRY(status);
    hil_sum_drop(store, unit, i);
    use->given = true;
    return hil_window_prefetch(store);
}

hil_status hil_reduce_wait(hil_store *store)
{
    if (!store->reduce) return HIL_OK;
    return hil_links_wait(store->links, &store->reduce->all, HIL_WAIT_GRADIENTS);
}

hil_status hil_reduce_agree(hil_store *store)
{
    struct hil_reduce *s = store->reduce;
    HIL_TRY(hil_reduce_wait(store));
    unsigned char *bits = s->given;
    for (size_t u = 0; u < store->units; ++u)
        for (int m = 0; m < store->unit[u].members; ++m)
            *bits++ = (unsigned char)store->unit[u].member[m].summed;
    HIL_TRY(hil_comm_any(store->opening.comm, s->given, s->members));
    bits = s->given;
    for (size_t u = 0; u < store->units; ++u) {
        hil_unit *unit = &store->unit[u];
        unsigned any = 0;
        for (int m = 0; m < unit->members; ++m) any |= unit->member[m].summed = *bits++;
        for (int i = 0; i < unit->uses; ++i) unit->use[i].given &= any >> i & 1;
    }
    return HIL_OK;
}

void hil_reduce_step_end(hil_store *store)
{
    if (store->reduce) store->reduce->next = 0;
}

hil_status hil_reduce_open(hil_store *store)
{
    _Static_assert(HIL_USES <= 8, "a byte has a bit for every use");
    if (hil_store_alone(store)) return HIL_OK;
    struct hil_reduce *s;
    HIL_TRY(HIL_ALLOC(1, &s));
    store->reduce = s;
    size_t chunks = 0;
    for (size_t u = 0; u < store->units; ++u) {
        const hil_unit *unit = &store->unit[u];
        s->members += (size_t)unit->members;
        for (int i = 0; i < unit->uses; ++i)
            if (unit->use[i].home.exists) chunks += chunks_of(store, unit);
    }
    HIL_TRY(HIL_GROW(&s->reduction, &s->room, chunks));
    return HIL_ALLOC(s->members, &s->given);
}

void hil_reduce_close(hil_store *store)
{
    if (!store->reduce) return;
    hil_free(store->reduce->reduction);
    hil_free(store->reduce->given);
    hil_free(store->reduce);
    store->reduce = NULL;
}
