/* fetch.c - fetches a weight into its copy on the device: from host or disk, and with several ranks
   by an all-gather of their slices. */
#include "store/fetch.h"
#include "store/rank_exchange.h"

bool hil_weight_resident(const hil_store *store, const hil_unit *unit)
{
    const hil_home *home = &unit->home[HIL_WEIGHT];
    return !home->exists || (hil_store_alone(store) && home->tier == HIL_DEVICE);
}

size_t hil_weight_bytes(const hil_unit *unit)
{
    return (size_t)unit->elements * hil_dtype_size(unit->dtype);
}

/* This rank's slice in a copy of the whole weight. */
static char *slice_of(const hil_store *store, const hil_unit *unit, char *copy)
{
    return copy + (size_t)hil_unit_begin(store, unit) * hil_dtype_size(unit->dtype);
}

/* Fetches the pages of one job through the staging ring. After `room` the copy may be written. */
static hil_status fetch_pages(hil_store *store, hil_unit *unit, int64_t page, const hil_fence *room)
{
    const hil_home *home = &unit->home[HIL_WEIGHT];
    size_t at = (size_t)page * home->extent.page, bytes = home->bytes - at;
    size_t most = (size_t)store->merge * home->extent.page;
    if (bytes > most) bytes = most;
    hil_job fetch = {.link = HIL_LINK_FETCH, .parts = 1, .name = "weights"};
    hil_job in = {.link = HIL_LINK_IN, .after = *room, .parts = 1, .name = "weights"};
    void *piece;
    hil_fence moved = {0};
    HIL_TRY(hil_ring_take(store->ring, home->extent.page, &piece, &fetch.after));
    hil_fence_join(&fetch.after, &unit->swept);
    fetch.part[0] =
        (hil_part){.kind = HIL_PART_READ,
                   .to = piece,
                   .bytes = bytes,
                   .disk = &home->extent,
                   .first = page,
                   .count = (int64_t)((bytes + home->extent.page - 1) / home->extent.page)};
    in.part[0] = (hil_part){.kind = HIL_PART_COPY,
                            .to = slice_of(store, unit, unit->copy) + at,
                            .from = piece,
                            .bytes = bytes};
    hil_status status = hil_links_submit(store->links, &fetch, &moved);
    hil_fence_join(&unit->reading, &moved);
    hil_fence_join(&in.after, &moved);
    if (status == HIL_OK) status = hil_links_submit(store->links, &in, &moved);
    hil_ring_give(store->ring, piece, &moved);
    hil_fence_join(&unit->ready, &moved);
    return status;
}

static hil_status copy_slice(hil_store *store, hil_unit *unit, const hil_fence *room)
{
    const hil_home *home = &unit->home[HIL_WEIGHT];
    hil_job in = {.link = HIL_LINK_IN, .after = *room, .parts = 1, .name = "weights"};
    hil_fence_join(&in.after, &unit->swept);
    in.part[0] = (hil_part){.kind = HIL_PART_COPY,
                            .to = slice_of(store, unit, unit->copy),
                            .from = home->memory,
                            .bytes = home->bytes};
    HIL_TRY(hil_links_submit(store->links, &in, &unit->ready));
    hil_fence_join(&unit->reading, &unit->ready);
    return HIL_OK;
}

/* Runs on the GATHER link's thread. `copy` is the address of the copy, because unit->copy may be
   NULL or another copy by then. */
static hil_status gather_slices(void *context, int64_t copy)
{
    const hil_unit *unit = context;
    const hil_store *store = unit->member[0].param->store;
    const hil_home *home = &unit->home[HIL_WEIGHT];
    char *whole = (char *)(intptr_t)copy;
    const char *slice = home->tier == HIL_DEVICE ? home->memory : slice_of(store, unit, whole);
    return hil_exchange_gather(store, slice, whole, home->bytes);
}

/* A slice that is kept on the device is read from its home; others are in the copy by then. */
static hil_status gather(hil_store *store, hil_unit *unit, const hil_fence *room)
{
    const hil_home *home = &unit->home[HIL_WEIGHT];
    hil_job job = {.link = HIL_LINK_GATHER,
                   .after = *room,
                   .run = gather_slices,
                   .context = unit,
                   .index = (intptr_t)unit->copy,
                   .bytes = (uint64_t)(store->options.ranks - 1) * home->bytes,
                   .name = "gather"};
    hil_fence_join(&job.after, &unit->swept);
    hil_fence_join(&job.after, &unit->ready);
    if (store->opening.speeds && store->opening.speeds->network > 0)
        job.seconds = (double)job.bytes / store->opening.speeds->network;
    HIL_TRY(hil_exchange_submit(store, &job, &unit->ready));
    if (home->tier == HIL_DEVICE) hil_fence_join(&unit->reading, &unit->ready);
    return HIL_OK;
}

/* Fetches from the host in one copy, from disk page by page. */
hil_status hil_weight_fetch(hil_store *store, hil_unit *unit)
{
    const hil_home *home = &unit->home[HIL_WEIGHT];
    hil_fence room;
    hil_status status = HIL_OK;
    HIL_TRY(
        hil_buffers_take_after(store->window, hil_weight_bytes(unit), (void **)&unit->copy, &room));
    unit->ready = (hil_fence){0};
    if (home->tier == HIL_HOST) status = copy_slice(store, unit, &room);
    for (int64_t page = 0; page < home->extent.pages && status == HIL_OK; page += store->merge)
        status = fetch_pages(store, unit, page, &room);
    if (status == HIL_OK && !hil_store_alone(store)) status = gather(store, unit, &room);
    if (status == HIL_OK) return HIL_OK;
    hil_fence_join(&unit->ready, &room);
    hil_buffers_give_after(store->window, unit->copy, &unit->ready);
    unit->copy = NULL;
    return status;
}
