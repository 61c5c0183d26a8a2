/* offload.c - copies movable tensors between the device, host memory and, through the ring, disk.
 */
#include "tier/offload.h"

#include "base/alloc.h"
#include "base/text.h"
#include "io/align.h"

#define ALIGN 64
/* Page size of larger tensors: small enough to spread them over the drives. */
#define PAGE ((size_t)4 << 20)

/* [Note: late reuse] Reusing a buffer before its copy-out ends would stall; so buffers that were
   offloaded go back once two turns' worth of newer ones are held, measured by the largest turn. By
   then their copies are over, unless the bus is the limit. */
#define TURNS 2

typedef struct late_free {
    void *memory;
    size_t bytes;
    hil_fence free;
    uint64_t number; /* of the call that queued it */
} late_free;

struct hil_offload {
    hil_tiers *tiers;
    hil_buffers *buffers;
    hil_ring *ring;
    hil_region *host;
    char *host_base;
    size_t host_bytes;
    late_free *late; /* device memory to be freed, in order of calls */
    size_t late_count, late_room;
    size_t left, held, most; /* bytes: offloaded in this turn, in `late`, in the largest turn */
    uint64_t calls;          /* of hil_movable_offload_later */
};

hil_status hil_offload_create(hil_offload **out, hil_tiers *tiers, hil_buffers *buffers,
                              hil_ring *ring, size_t host_bytes, hil_pin_order pinned)
{
    hil_status status;
    hil_offload *p = NULL;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &p));
    p->tiers = tiers;
    p->buffers = buffers;
    p->ring = ring;
    p->host_bytes = host_bytes;
    HIL_TRY_DONE(hil_region_create(&p->host, host_bytes, ALIGN));
    if (host_bytes)
        HIL_TRY_DONE(hil_tiers_take(tiers, HIL_HOST, host_bytes, "offloaded tensors",
                                    (void **)&p->host_base));
    HIL_TRY_DONE(hil_tiers_pin(tiers, p->host_base, host_bytes, pinned));
    *out = p;
    p = NULL;
done:
    hil_offload_destroy(p);
    return status;
}

void hil_offload_destroy(hil_offload *p)
{
    if (!p) return;
    assert(!p->host || hil_region_used(p->host) == 0);
    assert(p->late_count == 0);
    hil_region_destroy(p->host);
    hil_free(p->late);
    hil_free(p);
}

/* Most bytes of the ring for one piece: half of it, so that two can be in flight. */
static size_t piece_room(const hil_offload *p)
{
    size_t half = hil_ring_bytes(p->ring) / 2 / HIL_IO_ALIGN * HIL_IO_ALIGN;
    assert(hil_ring_bytes(p->ring) >= HIL_IO_ALIGN);
    return half ? half : HIL_IO_ALIGN;
}

static size_t page_bytes(const hil_offload *p, size_t bytes)
{
    size_t page = hil_align_up(bytes);
    if (page > piece_room(p)) page = piece_room(p);
    return page < PAGE ? page : PAGE;
}

/* *fence: in, what the copy waits for; out, its completion. */
static hil_status copy(hil_offload *p, hil_link link, void *to, const void *from, size_t bytes,
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

/* A rehearsal moves a tensor of more pages than this in two loads, larger than the ring would
   allow: the same bytes in fewer jobs. */
#define REHEARSED_PAGES 16

/* The pages of a tensor that pass through the ring together. */
typedef struct load {
    int64_t first, count;
    size_t offset, bytes; /* in the tensor */
    size_t room;          /* bytes of the ring */
    char *memory;         /* in the ring */
    hil_fence fence;      /* what the next job waits for; after submit, its completion */
} load;

/* The load after `l`, or the first if its count is 0; false if there is none. */
static bool next_load(const hil_offload *p, const hil_extent *extent, load *l)
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

static hil_status transfer(hil_offload *p, hil_link link, const hil_extent *extent, load *l)
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

/* Joins to *gone what must complete before the device memory is reused. */
static hil_status send_to_disk(hil_offload *p, hil_movable *movable, hil_fence *gone)
{
    assert(p->tiers->disk && p->ring);
    hil_extent extent = movable->extent;
    hil_fence room = movable->left, left = {0};
    if (!movable->stale)
        HIL_TRY(hil_disk_take(p->tiers->disk, movable->bytes, page_bytes(p, movable->bytes),
                              &extent, &room));
    hil_status status = HIL_OK;
    for (load l = {0}; status == HIL_OK && next_load(p, &extent, &l);) {
        status = hil_ring_take(p->ring, l.room, (void **)&l.memory, &l.fence);
        if (status != HIL_OK) break;
        hil_fence_join(&l.fence, &movable->ready);
        status =
            copy(p, HIL_LINK_OUT, l.memory, (char *)movable->data + l.offset, l.bytes, &l.fence);
        hil_fence_join(gone, &l.fence);
        hil_fence_join(&l.fence, &room);
        if (status == HIL_OK) status = transfer(p, HIL_LINK_STASH, &extent, &l);
        hil_ring_give(p->ring, l.memory, &l.fence);
        hil_fence_join(&left, &l.fence);
    }
    if (status != HIL_OK) {
        hil_fence_join(&left, &room);
        if (movable->stale)
            movable->left = left;
        else
            hil_disk_give(p->tiers->disk, &extent, &left);
        return status;
    }
    movable->extent = extent;
    movable->left = left;
    return HIL_OK;
}

/* Allocates host memory, which may be written after *fence. */
static hil_status take_place(hil_offload *p, const hil_movable *movable, size_t *offset,
                             hil_fence *fence)
{
    bool found;
    HIL_TRY(hil_region_take(p->host, movable->bytes, offset, fence, &found));
    if (found) return HIL_OK;
    char want[32], taken[32], all[32], budget[32];
    return hil_fail(
        HIL_ERR_BUDGET,
        "out of host memory: no room for a tensor of %s, with %s taken of the %s "
        "for tensors that wait; try a larger --host-memory (now %s)",
        hil_text_bytes(want, movable->bytes), hil_text_bytes(taken, hil_region_used(p->host)),
        hil_text_bytes(all, p->host_bytes), hil_text_bytes(budget, p->tiers->host_bytes));
}

static hil_status send_to_host(hil_offload *p, hil_movable *movable, hil_fence *gone)
{
    size_t offset = movable->host;
    hil_fence fence = movable->left;
    if (!movable->stale) HIL_TRY(take_place(p, movable, &offset, &fence));
    hil_fence_join(&fence, &movable->ready);
    hil_status status =
        copy(p, HIL_LINK_OUT, p->host_base + offset, movable->data, movable->bytes, &fence);
    if (status != HIL_OK) {
        if (!movable->stale) hil_region_give(p->host, offset, &fence);
        return status;
    }
    movable->host = offset;
    movable->left = *gone = fence;
    return HIL_OK;
}

static hil_status store(hil_offload *p, hil_movable *movable, hil_tier home)
{
    assert(movable->data && movable->bytes && (home == HIL_HOST || home == HIL_DISK));
    if (movable->stored && !movable->stale) return HIL_OK;
    if (movable->stale) home = movable->home;
    hil_fence gone = {0};
    hil_status status =
        home == HIL_HOST ? send_to_host(p, movable, &gone) : send_to_disk(p, movable, &gone);
    hil_fence_join(&movable->ready, &gone);
    if (status != HIL_OK) return status;
    movable->home = home;
    movable->stored = true;
    movable->stale = false;
    return HIL_OK;
}

hil_status hil_movable_offload(hil_offload *p, hil_movable *movable, hil_tier home)
{
    HIL_TRY(store(p, movable, home));
    hil_buffers_give_after(p->buffers, movable->data, &movable->ready);
    movable->data = NULL;
    return HIL_OK;
}

hil_status hil_movable_offload_later(hil_offload *p, hil_movable *movable, hil_tier home)
{
    HIL_TRY(HIL_GROW(&p->late, &p->late_room, p->late_count + 1));
    HIL_TRY(store(p, movable, home));
    movable->late = ++p->calls;
    p->late[p->late_count++] =
        (late_free){movable->data, movable->bytes, movable->ready, movable->late};
    p->left += movable->bytes;
    p->held += movable->bytes;
    movable->data = NULL;
    return HIL_OK;
}

static late_free remove_late(hil_offload *p, size_t i)
{
    late_free l = p->late[i];
    p->held -= l.bytes;
    for (--p->late_count; i < p->late_count; ++i) p->late[i] = p->late[i + 1];
    return l;
}

static void give_above(hil_offload *p, size_t bytes)
{
    while (p->late_count && p->held > bytes) {
        late_free l = remove_late(p, 0);
        hil_buffers_give_after(p->buffers, l.memory, &l.free);
    }
}

void hil_offload_turn(hil_offload *p)
{
    if (p->left > p->most) p->most = p->left;
    p->left = 0;
    give_above(p, TURNS * p->most);
}

void hil_offload_reclaim(hil_offload *p)
{
    p->left = 0;
    give_above(p, 0);
}

/* Takes the tensor's device memory back from `late`; false: it was freed already. */
static bool take_back(hil_offload *p, hil_movable *movable)
{
    size_t i = 0;
    while (i < p->late_count && p->late[i].number != movable->late) ++i;
    if (i == p->late_count) return false;
    late_free l = remove_late(p, i);
    movable->data = l.memory;
    movable->ready = l.free;
    return true;
}

/* The device memory may be written after `room`. */
static hil_status fetch_from_disk(hil_offload *p, hil_movable *movable, const hil_fence *room)
{
    const hil_extent *extent = &movable->extent;
    hil_status status = HIL_OK;
    for (load l = {0}; status == HIL_OK && next_load(p, extent, &l);) {
        status = hil_ring_take(p->ring, l.room, (void **)&l.memory, &l.fence);
        if (status != HIL_OK) break;
        hil_fence_join(&l.fence, &movable->left);
        status = transfer(p, HIL_LINK_FETCH, extent, &l);
        hil_fence_join(&l.fence, room);
        if (status == HIL_OK)
            status = copy(p, HIL_LINK_BACK, (char *)movable->data + l.offset, l.memory, l.bytes,
                          &l.fence);
        hil_ring_give(p->ring, l.memory, &l.fence);
        hil_fence_join(&movable->ready, &l.fence);
    }
    return status;
}

hil_status hil_movable_prefetch(hil_offload *p, hil_movable *movable)
{
    if (movable->data || take_back(p, movable)) return HIL_OK;
    assert(movable->stored && !movable->stale);
    hil_fence room;
    HIL_TRY(hil_buffers_take_after(p->buffers, movable->bytes, &movable->data, &room));
    movable->ready = (hil_fence){0};
    hil_status status;
    if (movable->home == HIL_DISK) {
        status = fetch_from_disk(p, movable, &room);
    } else {
        hil_fence_join(&movable->ready, &room);
        hil_fence_join(&movable->ready, &movable->left);
        status = copy(p, HIL_LINK_BACK, movable->data, p->host_base + movable->host, movable->bytes,
                      &movable->ready);
    }
    if (status == HIL_OK) return HIL_OK;
    hil_fence_join(&movable->ready, &room);
    hil_buffers_give_after(p->buffers, movable->data, &movable->ready);
    movable->data = NULL;
    return status;
}

hil_status hil_movable_wait(hil_offload *p, hil_movable *movable, hil_wait_reason reason)
{
    HIL_TRY(hil_movable_prefetch(p, movable));
    return hil_links_follow(p->tiers->links, &movable->ready, reason);
}

static void free_home(hil_offload *p, hil_movable *movable)
{
    if (!movable->stored) return;
    hil_fence after = movable->left;
    hil_fence_join(&after, &movable->ready);
    if (movable->home == HIL_DISK)
        hil_disk_give(p->tiers->disk, &movable->extent, &after);
    else
        hil_region_give(p->host, movable->host, &after);
    movable->stored = movable->stale = false;
    movable->left = (hil_fence){0};
}

void hil_movable_discard_copy(hil_offload *p, hil_movable *movable)
{
    assert(movable->data);
    free_home(p, movable);
}

void hil_movable_set_dirty(hil_movable *movable)
{
    assert(movable->data);
    movable->stale = movable->stored;
}

void hil_movable_free(hil_offload *p, hil_movable *movable)
{
    free_home(p, movable);
    hil_buffers_give_after(p->buffers, movable->data, &movable->ready);
    *movable = (hil_movable){0};
}

size_t hil_offload_peak(const hil_offload *p)
{
    return hil_region_extent(p->host);
}
