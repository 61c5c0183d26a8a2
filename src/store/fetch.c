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

/* A slice that is kept on the device is read from its home; others are in the copy by then. */
static hil_status gather(hil_store *store, hil_unit *unit, const hil_fence *room)
{
    bool home = unit->home[HIL_WEIGHT].tier == HIL_DEVICE;
    hil_fence after = *room;
    hil_fence_join(&after, &unit->swept);
    hil_fence_join(&after, &unit->ready);
    HIL_TRY(hil_exchange_gather(store, unit, unit->copy, home, &after, &unit->ready));
    if (home) hil_fence_join(&unit->reading, &unit->ready);
    return HIL_OK;
}

hil_status hil_weight_reserve(hil_store *store, hil_unit *unit)
{
    HIL_TRY(hil_buffers_take_after(store->window, hil_weight_bytes(unit), (void **)&unit->copy,
                                   &unit->ready));
    unit->hollow = true;
    store->skipped += (int64_t)unit->home[HIL_WEIGHT].bytes;
    return HIL_OK;
}

void hil_weight_free(hil_store *store, hil_unit *unit)
{
    hil_buffers_give_after(store->window, unit->copy, &unit->ready);
    unit->copy = NULL;
    unit->hollow = false;
}

/* Fetches from the host in one copy, from disk page by page. */
hil_status hil_weight_fill(hil_store *store, hil_unit *unit)
{
    const hil_home *home = &unit->home[HIL_WEIGHT];
    hil_fence room = unit->ready;
    hil_status status = HIL_OK;
    unit->ready = (hil_fence){0};
    if (home->tier == HIL_HOST) status = copy_slice(store, unit, &room);
    for (int64_t page = 0; page < home->extent.pages && status == HIL_OK; page += store->merge)
        status = fetch_pages(store, unit, page, &room);
    if (status == HIL_OK && !hil_store_alone(store)) status = gather(store, unit, &room);
    unit->hollow = status != HIL_OK;
    if (unit->hollow) hil_fence_join(&unit->ready, &room);
    if (!unit->hollow) store->skipped -= (int64_t)home->bytes;
    return status;
}
