/* rank_exchange.c - exchange between ranks of memory on a device that the comm cannot access: a
   device comm moves it from device to device, on the streams of the links; without a device comm it
   is staged in pinned host memory on both sides, piece by piece. */
#include "base/alloc.h"
#include "io/align.h"
#include "store/rank_exchange.h"

#define PIECE_ALIGN 64

/* The staging buffer of one link; GATHER and REDUCE have one each, because their threads run at the
   same time. */
typedef struct lane {
    char *memory;
    hil_event *moved;
} lane;

struct hil_exchange {
    lane gather, reduce;
    size_t piece; /* bytes of a slice per gather */
};

/* Blocks the link's thread until the work that it queued on its stream is complete. */
static hil_status wait_lane(const hil_store *store, hil_stream stream, const lane *l)
{
    hil_device *device = store->device;
    HIL_TRY(device->events->record(device, stream, l->moved));
    return device->events->wait(device, l->moved);
}

/* Waits even after a failure, because work that was queued before it still uses the memory. */
static hil_status wait_after(hil_status status, const hil_store *store, hil_stream stream,
                             const lane *l)
{
    hil_status waited = wait_lane(store, stream, l);
    return status == HIL_OK ? waited : status;
}

hil_status hil_exchange_wait(const hil_store *store, hil_status status)
{
    if (!store->device || store->plan->connected) return status;
    return wait_after(status, store, HIL_STREAM_REDUCE, &store->exchange->reduce);
}

hil_status hil_exchange_submit(hil_store *store, hil_job *job, hil_fence *fence)
{
    if (!store->plan->connected) return hil_links_submit(store->links, job, fence);
    job->queues = true;
    hil_fence_join(&job->after, &store->turn);
    hil_status status = hil_links_submit(store->links, job, &store->turn);
    hil_fence_join(fence, &store->turn);
    return status;
}

/* If the device comm failed because the comm did, returns the comm's failure, which says why. */
static hil_status connected_status(const hil_store *store, hil_status status)
{
    if (status != HIL_OK) HIL_TRY(hil_comm_check(store->opening.comm));
    return status;
}

static hil_status gather_pieces(const hil_store *store, const char *slice, char *whole,
                                size_t bytes)
{
    const struct hil_exchange *c = store->exchange;
    hil_device *device = store->device;
    for (size_t at = 0; at < bytes; at += c->piece) {
        size_t n = bytes - at < c->piece ? bytes - at : c->piece;
        char *mine = c->gather.memory, *all = mine + c->piece;
        HIL_TRY(device->queue->copy(device, HIL_STREAM_GATHER, mine, slice + at, n));
        HIL_TRY(wait_lane(store, HIL_STREAM_GATHER, &c->gather));
        HIL_TRY(hil_comm_gather(store->opening.comm, HIL_CHANNEL_GATHER, mine, all, n));
        for (int r = 0; r < store->options.ranks; ++r)
            HIL_TRY(device->queue->copy(device, HIL_STREAM_GATHER, whole + (size_t)r * bytes + at,
                                        all + (size_t)r * n, n));
    }
    return HIL_OK;
}

/* Runs on the thread of the GATHER link, or queues on its stream. */
static hil_status gather(const hil_store *store, const char *slice, char *whole, size_t bytes)
{
    hil_device_comm *device_comm = store->opening.device_comm;
    if (!store->device)
        return hil_comm_gather(store->opening.comm, HIL_CHANNEL_GATHER, slice, whole, bytes);
    if (device_comm)
        return connected_status(store, device_comm->engine->gather(device_comm, HIL_STREAM_GATHER,
                                                                   slice, whole, bytes));
    hil_status status = gather_pieces(store, slice, whole, bytes);
    return wait_after(status, store, HIL_STREAM_GATHER, &store->exchange->gather);
}

static size_t slice_bytes(const hil_unit *unit)
{
    return (size_t)unit->slice * hil_dtype_size(unit->dtype);
}

/* `whole` is an address, because unit->copy may be NULL or another copy by then. */
static hil_status gather_here(void *context, int64_t whole)
{
    const hil_unit *unit = context;
    const hil_store *store = unit->member[0].param->store;
    char *to = (char *)(intptr_t)whole;
    return gather(store, to + (size_t)store->options.rank * slice_bytes(unit), to,
                  slice_bytes(unit));
}

static hil_status gather_home(void *context, int64_t whole)
{
    const hil_unit *unit = context;
    return gather(unit->member[0].param->store, unit->home[HIL_WEIGHT].memory,
                  (char *)(intptr_t)whole, slice_bytes(unit));
}

hil_status hil_exchange_gather(hil_store *store, hil_unit *unit, char *whole, bool home,
                               const hil_fence *after, hil_fence *fence)
{
    hil_job job = {.link = HIL_LINK_GATHER,
                   .after = *after,
                   .run = home ? gather_home : gather_here,
                   .context = unit,
                   .index = (intptr_t)whole,
                   .bytes = (uint64_t)(store->options.ranks - 1) * slice_bytes(unit),
                   .name = "gather"};
    return hil_exchange_submit(store, &job, fence);
}

hil_status hil_exchange_all_to_all(const hil_store *store, const char *out, char *in, size_t bytes)
{
    hil_comm *comm = store->opening.comm;
    hil_device *device = store->device;
    hil_device_comm *device_comm = store->opening.device_comm;
    if (!device) return hil_comm_exchange(comm, HIL_CHANNEL_REDUCE, out, in, bytes);
    if (device_comm)
        return connected_status(
            store, device_comm->engine->exchange(device_comm, HIL_STREAM_REDUCE, out, in, bytes));
    const lane *l = &store->exchange->reduce;
    size_t all = (size_t)store->options.ranks * bytes;
    HIL_TRY(device->queue->copy(device, HIL_STREAM_REDUCE, l->memory, out, all));
    HIL_TRY(wait_lane(store, HIL_STREAM_REDUCE, l));
    HIL_TRY(hil_comm_exchange(comm, HIL_CHANNEL_REDUCE, l->memory, l->memory + all, bytes));
    return device->queue->copy(device, HIL_STREAM_REDUCE, in, l->memory + all, all);
}

static hil_status open_lane(hil_store *store, lane *l, size_t bytes)
{
    HIL_TRY(
        hil_tiers_take(store->tiers, HIL_HOST, bytes, "what ranks exchange", (void **)&l->memory));
    store->resident[HIL_HOST] += bytes;
    HIL_TRY(hil_tiers_pin(store->tiers, l->memory, bytes, HIL_PIN_FIRST));
    if (!store->device) return HIL_OK;
    return store->device->events->create(store->device, &l->moved);
}

hil_status hil_exchange_open(hil_store *store)
{
    if (hil_store_alone(store) || !store->discrete || store->plan->connected) return HIL_OK;
    struct hil_exchange *c;
    int ranks = store->options.ranks;
    size_t gather = hil_exchange_gather_bytes(store->plan->chunk, ranks);
    HIL_TRY(HIL_ALLOC(1, &c));
    store->exchange = c;
    c->piece = gather / (size_t)(ranks + 1) / PIECE_ALIGN * PIECE_ALIGN;
    HIL_TRY(open_lane(store, &c->gather, gather));
    if (!store->options.training) return HIL_OK;
    return open_lane(store, &c->reduce, hil_exchange_all_to_all_bytes(store->plan->chunk, ranks));
}

void hil_exchange_close(hil_store *store)
{
    struct hil_exchange *c = store->exchange;
    if (!c) return;
    if (c->gather.moved) store->device->events->destroy(store->device, c->gather.moved);
    if (c->reduce.moved) store->device->events->destroy(store->device, c->reduce.moved);
    hil_free(c);
    store->exchange = NULL;
}
