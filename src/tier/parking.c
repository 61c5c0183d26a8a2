/* parking.c - the ways of parcels: device, host memory or ring, disk. */
#include "tier/parking.h"

#include "base/alloc.h"
#include "base/text.h"
#include "io/align.h"

#define ALIGN 64
/* Pages of larger tensors: small enough to be spread over the drives. */
#define PAGE ((size_t)4 << 20)

/* [Note: late reuse] Reusing a buffer before its copy-out ends would stall; so buffers that were
   offloaded go back once two turns' worth of newer ones are held, measured by the largest turn. By
   then their copies are over, unless the bus is the limit. */
#define TURNS 2

typedef struct offload {
    void *memory;
    size_t bytes;
    hil_fence free;
    uint64_t number; /* of the call */
} offload;

struct hil_parking {
    hil_tiers *tiers;
    hil_buffers *buffers;
    hil_ring *ring;
    hil_region *host;
    char *host_base;
    size_t host_bytes;
    offload *offload; /* in order */
    size_t offloads, offload_room;
    size_t left, held, most; /* bytes: in this turn, of all that leave, in the largest turn */
    uint64_t calls;          /* of hil_parcel_offload_later */
};

hil_status hil_parking_create(hil_parking **out, hil_tiers *tiers, hil_buffers *buffers,
                              hil_ring *ring, size_t host_bytes)
{
    hil_status status;
    hil_parking *p = NULL;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &p));
    p->tiers = tiers;
    p->buffers = buffers;
    p->ring = ring;
    p->host_bytes = host_bytes;
    HIL_TRY_DONE(hil_region_create(&p->host, host_bytes, ALIGN));
    if (host_bytes)
        HIL_TRY_DONE(
            hil_tiers_take(tiers, HIL_HOST, host_bytes, "parked tensors", (void **)&p->host_base));
    HIL_TRY_DONE(hil_tiers_pin(tiers, p->host_base, host_bytes));
    *out = p;
    p = NULL;
done:
    hil_parking_destroy(p);
    return status;
}

void hil_parking_destroy(hil_parking *p)
{
    if (!p) return;
    assert(!p->host || hil_region_used(p->host) == 0);
    assert(p->offloads == 0);
    hil_region_destroy(p->host);
    hil_free(p->offload);
    hil_free(p);
}

/* Bytes of the ring that one piece may have: two pieces can be under way. */
static size_t piece_room(const hil_parking *p)
{
    size_t half = hil_ring_bytes(p->ring) / 2 / HIL_IO_ALIGN * HIL_IO_ALIGN;
    assert(hil_ring_bytes(p->ring) >= HIL_IO_ALIGN);
    return half ? half : HIL_IO_ALIGN;
}

static size_t page_bytes(const hil_parking *p, size_t bytes)
{
    size_t page = hil_align_up(bytes);
    if (page > piece_room(p)) page = piece_room(p);
    return page < PAGE ? page : PAGE;
}

/* *fence: what the copy waits for, then when it is over. */
static hil_status copy(hil_parking *p, hil_link link, void *to, const void *from, size_t bytes,
                       hil_fence *fence)
{
    hil_job job = {
        .link = link,
        .after = *fence,
        .parts = 1,
        .part[0] = {.kind = HIL_PART_COPY, .to = to, .from = from, .bytes = bytes},
        .name = link == HIL_LINK_OUT ? "leave" : "return",
    };
    return hil_links_submit(p->tiers->links, &job, fence);
}

/* In a rehearsal a parcel of more pages than this has two loads, larger than the ring would allow:
   the bytes are the same, with fewer jobs. */
#define REHEARSED_PAGES 16

/* The pages of a parcel that pass the ring together. */
typedef struct load {
    int64_t first, count;
    size_t offset, bytes; /* in the parcel */
    size_t room;          /* in the ring */
    char *memory;         /* there */
    hil_fence fence;      /* what the next job waits for, then when it is over */
} load;

/* The load behind `l`, or the first where its count is 0; false: that was the last. */
static bool next_load(const hil_parking *p, const hil_extent *extent, load *l)
{
    l->first += l->count;
    if (l->first >= extent->pages) return false;
    l->count = (int64_t)(piece_room(p) / extent->page);
    int64_t half = (extent->pages + 1) / 2;
    if (p->tiers->rehearse && extent->pages > REHEARSED_PAGES && l->count < half) l->count = half;
    if (l->count > extent->pages - l->first) l->count = extent->pages - l->first;
    l->offset = (size_t)l->first * extent->page;
    l->bytes = (size_t)l->count * extent->page;
    if (l->bytes > extent->bytes - l->offset) l->bytes = extent->bytes - l->offset;
    l->room = l->bytes < piece_room(p) ? l->bytes : piece_room(p);
    return true;
}

static hil_status transfer(hil_parking *p, hil_link link, const hil_extent *extent, load *l)
{
    bool write = link == HIL_LINK_STASH;
    hil_job job = {
        .link = link,
        .after = l->fence,
        .parts = 1,
        .part[0] = {.kind = write ? HIL_PART_WRITE : HIL_PART_READ,
                    .to = write ? NULL : l->memory,
                    .from = write ? l->memory : NULL,
                    .bytes = l->bytes,
                    .disk = extent,
                    .first = l->first,
                    .count = l->count},
        .name = write ? "stash" : "fetch",
    };
    return hil_links_submit(p->tiers->links, &job, &l->fence);
}

/* *gone: when the device's memory is free. */
static hil_status send_to_disk(hil_parking *p, hil_parcel *parcel, hil_fence *gone)
{
    assert(p->tiers->disk && p->ring);
    hil_extent extent = parcel->extent;
    hil_fence room = parcel->left, left = {0};
    if (!parcel->stale)
        HIL_TRY(hil_disk_take(p->tiers->disk, parcel->bytes, page_bytes(p, parcel->bytes), &extent,
                              &room));
    hil_status status = HIL_OK;
    for (load l = {0}; status == HIL_OK && next_load(p, &extent, &l);) {
        status = hil_ring_take(p->ring, l.room, (void **)&l.memory, &l.fence);
        if (status != HIL_OK) break;
        hil_fence_join(&l.fence, &parcel->ready);
        status =
            copy(p, HIL_LINK_OUT, l.memory, (char *)parcel->data + l.offset, l.bytes, &l.fence);
        hil_fence_join(gone, &l.fence);
        hil_fence_join(&l.fence, &room);
        if (status == HIL_OK) status = transfer(p, HIL_LINK_STASH, &extent, &l);
        hil_ring_give(p->ring, l.memory, &l.fence);
        hil_fence_join(&left, &l.fence);
    }
    if (status != HIL_OK) {
        hil_fence_join(&left, &room);
        if (parcel->stale)
            parcel->left = left;
        else
            hil_disk_give(p->tiers->disk, &extent, &left);
        return status;
    }
    parcel->extent = extent;
    parcel->left = left;
    return HIL_OK;
}

/* A place in host memory, free after `fence`. */
static hil_status take_place(hil_parking *p, const hil_parcel *parcel, size_t *offset,
                             hil_fence *fence)
{
    bool found;
    HIL_TRY(hil_region_take(p->host, parcel->bytes, offset, fence, &found));
    if (found) return HIL_OK;
    char want[32], taken[32], all[32], budget[32];
    return hil_fail(
        HIL_ERR_BUDGET,
        "out of host memory: no room for a tensor of %s, with %s taken of the %s "
        "for tensors that wait; try a larger --host-memory (now %s)",
        hil_text_bytes(want, parcel->bytes), hil_text_bytes(taken, hil_region_used(p->host)),
        hil_text_bytes(all, p->host_bytes), hil_text_bytes(budget, p->tiers->host_bytes));
}

static hil_status send_to_host(hil_parking *p, hil_parcel *parcel, hil_fence *gone)
{
    size_t offset = parcel->host;
    hil_fence fence = parcel->left;
    if (!parcel->stale) HIL_TRY(take_place(p, parcel, &offset, &fence));
    hil_fence_join(&fence, &parcel->ready);
    hil_status status =
        copy(p, HIL_LINK_OUT, p->host_base + offset, parcel->data, parcel->bytes, &fence);
    if (status != HIL_OK) {
        if (!parcel->stale) hil_region_give(p->host, offset, &fence);
        return status;
    }
    parcel->host = offset;
    parcel->left = *gone = fence;
    return HIL_OK;
}

static hil_status store(hil_parking *p, hil_parcel *parcel, hil_tier home)
{
    assert(parcel->data && parcel->bytes && (home == HIL_HOST || home == HIL_DISK));
    if (parcel->stored && !parcel->stale) return HIL_OK;
    if (parcel->stale) home = parcel->home;
    hil_fence gone = {0};
    hil_status status =
        home == HIL_HOST ? send_to_host(p, parcel, &gone) : send_to_disk(p, parcel, &gone);
    hil_fence_join(&parcel->ready, &gone);
    if (status != HIL_OK) return status;
    parcel->home = home;
    parcel->stored = true;
    parcel->stale = false;
    return HIL_OK;
}

hil_status hil_parcel_offload(hil_parking *p, hil_parcel *parcel, hil_tier home)
{
    HIL_TRY(store(p, parcel, home));
    hil_buffers_give_after(p->buffers, parcel->data, &parcel->ready);
    parcel->data = NULL;
    return HIL_OK;
}

hil_status hil_parcel_offload_later(hil_parking *p, hil_parcel *parcel, hil_tier home)
{
    HIL_TRY(HIL_GROW(&p->offload, &p->offload_room, p->offloads + 1));
    HIL_TRY(store(p, parcel, home));
    parcel->offload = ++p->calls;
    p->offload[p->offloads++] =
        (offload){parcel->data, parcel->bytes, parcel->ready, parcel->offload};
    p->left += parcel->bytes;
    p->held += parcel->bytes;
    parcel->data = NULL;
    return HIL_OK;
}

static offload remove_held(hil_parking *p, size_t i)
{
    offload l = p->offload[i];
    p->held -= l.bytes;
    for (--p->offloads; i < p->offloads; ++i) p->offload[i] = p->offload[i + 1];
    return l;
}

static void give_above(hil_parking *p, size_t bytes)
{
    while (p->offloads && p->held > bytes) {
        offload l = remove_held(p, 0);
        hil_buffers_give_after(p->buffers, l.memory, &l.free);
    }
}

void hil_parking_turn(hil_parking *p)
{
    if (p->left > p->most) p->most = p->left;
    p->left = 0;
    give_above(p, TURNS * p->most);
}

void hil_parking_reclaim(hil_parking *p)
{
    p->left = 0;
    give_above(p, 0);
}

/* Its memory, if that is still the parcel's. */
static bool stay(hil_parking *p, hil_parcel *parcel)
{
    size_t i = 0;
    while (i < p->offloads && p->offload[i].number != parcel->offload) ++i;
    if (i == p->offloads) return false;
    offload l = remove_held(p, i);
    parcel->data = l.memory;
    parcel->ready = l.free;
    return true;
}

/* The device's memory is free for the transfer after `room`. */
static hil_status call_from_disk(hil_parking *p, hil_parcel *parcel, const hil_fence *room)
{
    const hil_extent *extent = &parcel->extent;
    hil_status status = HIL_OK;
    for (load l = {0}; status == HIL_OK && next_load(p, extent, &l);) {
        status = hil_ring_take(p->ring, l.room, (void **)&l.memory, &l.fence);
        if (status != HIL_OK) break;
        hil_fence_join(&l.fence, &parcel->left);
        status = transfer(p, HIL_LINK_FETCH, extent, &l);
        hil_fence_join(&l.fence, room);
        if (status == HIL_OK)
            status = copy(p, HIL_LINK_BACK, (char *)parcel->data + l.offset, l.memory, l.bytes,
                          &l.fence);
        hil_ring_give(p->ring, l.memory, &l.fence);
        hil_fence_join(&parcel->ready, &l.fence);
    }
    return status;
}

hil_status hil_parcel_prefetch(hil_parking *p, hil_parcel *parcel)
{
    if (parcel->data || stay(p, parcel)) return HIL_OK;
    assert(parcel->stored && !parcel->stale);
    hil_fence room;
    HIL_TRY(hil_buffers_take_after(p->buffers, parcel->bytes, &parcel->data, &room));
    parcel->ready = (hil_fence){0};
    hil_status status;
    if (parcel->home == HIL_DISK) {
        status = call_from_disk(p, parcel, &room);
    } else {
        hil_fence_join(&parcel->ready, &room);
        hil_fence_join(&parcel->ready, &parcel->left);
        status = copy(p, HIL_LINK_BACK, parcel->data, p->host_base + parcel->host, parcel->bytes,
                      &parcel->ready);
    }
    if (status == HIL_OK) return HIL_OK;
    hil_fence_join(&parcel->ready, &room);
    hil_buffers_give_after(p->buffers, parcel->data, &parcel->ready);
    parcel->data = NULL;
    return status;
}

hil_status hil_parcel_wait(hil_parking *p, hil_parcel *parcel, hil_wait_reason reason)
{
    HIL_TRY(hil_parcel_prefetch(p, parcel));
    return hil_links_follow(p->tiers->links, &parcel->ready, reason);
}

static void free_home(hil_parking *p, hil_parcel *parcel)
{
    if (!parcel->stored) return;
    hil_fence after = parcel->left;
    hil_fence_join(&after, &parcel->ready);
    if (parcel->home == HIL_DISK)
        hil_disk_give(p->tiers->disk, &parcel->extent, &after);
    else
        hil_region_give(p->host, parcel->host, &after);
    parcel->stored = parcel->stale = false;
    parcel->left = (hil_fence){0};
}

void hil_parcel_touch(hil_parking *p, hil_parcel *parcel)
{
    assert(parcel->data);
    free_home(p, parcel);
}

void hil_parcel_change(hil_parcel *parcel)
{
    assert(parcel->data);
    parcel->stale = parcel->stored;
}

void hil_parcel_drop(hil_parking *p, hil_parcel *parcel)
{
    free_home(p, parcel);
    hil_buffers_give_after(p->buffers, parcel->data, &parcel->ready);
    *parcel = (hil_parcel){0};
}

size_t hil_parking_peak(const hil_parking *p)
{
    return hil_region_extent(p->host);
}
