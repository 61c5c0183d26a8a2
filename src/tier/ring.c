/* ring.c - a ring buffer whose pieces are queued in the order they were taken. */
#include "tier/ring.h"

#include "base/alloc.h"
#include "io/align.h"

#include <string.h>

typedef struct piece {
    size_t offset, bytes;
    hil_fence after;
    bool given;
} piece;

/* The queue [first, first + count) covers the ring at most once, oldest piece first. The tail that
   is skipped when a piece wraps around is queued as a piece too. So a new piece always overlaps the
   front of the queue. */
struct hil_ring {
    char *base;
    size_t bytes, at;
    piece *queue;
    size_t first, count, capacity;
    size_t next_given; /* relative to first: all pieces before it were given back */
};

hil_status hil_ring_create(hil_ring **out, hil_tiers *tiers, size_t bytes)
{
    hil_status status;
    hil_ring *ring = NULL;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &ring));
    ring->bytes = bytes / HIL_IO_ALIGN * HIL_IO_ALIGN;
    if (ring->bytes)
        HIL_TRY_DONE(hil_tiers_take(tiers, HIL_HOST, ring->bytes, "staging", (void **)&ring->base));
    HIL_TRY_DONE(hil_tiers_pin(tiers, ring->base, ring->bytes, HIL_PIN_FIRST));
    assert((uintptr_t)ring->base % HIL_IO_ALIGN == 0);
    *out = ring;
    ring = NULL;
done:
    hil_ring_destroy(ring);
    return status;
}

void hil_ring_destroy(hil_ring *ring)
{
    if (!ring) return;
    hil_free(ring->queue);
    hil_free(ring);
}

size_t hil_ring_bytes(const hil_ring *ring)
{
    return ring->bytes;
}

/* Twice the need, so that memmove is rare; growth depends on the order of calls alone. */
static hil_status make_room(hil_ring *ring, size_t more)
{
    HIL_TRY(HIL_GROW(&ring->queue, &ring->capacity, 2 * (ring->count + more)));
    if (ring->first + ring->count + more <= ring->capacity) return HIL_OK;
    memmove(ring->queue, ring->queue + ring->first, ring->count * sizeof *ring->queue);
    ring->first = 0;
    return HIL_OK;
}

/* Takes the next `bytes` of the ring; the queue must have room. */
static piece *advance(hil_ring *ring, size_t bytes)
{
    piece new = {.offset = ring->at, .bytes = bytes};
    size_t end = ring->at + bytes;
    while (ring->count) {
        piece *old = &ring->queue[ring->first];
        if (old->offset < new.offset || old->offset >= end) break;
        assert(old->given); /* more pieces are held than the ring has room for */
        hil_fence_join(&new.after, &old->after);
        if (old->offset + old->bytes > end) {
            old->bytes -= end - old->offset;
            old->offset = end;
            break;
        }
        ++ring->first;
        --ring->count;
        if (ring->next_given) --ring->next_given;
    }
    ring->at = end == ring->bytes ? 0 : end;
    piece *place = &ring->queue[ring->first + ring->count++];
    *place = new;
    return place;
}

static void skip_rest(hil_ring *ring)
{
    advance(ring, ring->bytes - ring->at)->given = true;
}

hil_status hil_ring_fit(hil_ring *ring, size_t bytes)
{
    HIL_TRY(make_room(ring, 1));
    if (ring->at && ring->at + bytes > ring->bytes) skip_rest(ring);
    return HIL_OK;
}

hil_status hil_ring_rewind(hil_ring *ring)
{
    return hil_ring_fit(ring, ring->bytes);
}

hil_status hil_ring_take(hil_ring *ring, size_t bytes, void **memory, hil_fence *after)
{
    assert(bytes > 0 && bytes <= ring->bytes);
    bytes = hil_align_up(bytes);
    HIL_TRY(make_room(ring, 2));
    if (ring->at + bytes > ring->bytes) skip_rest(ring);
    const piece *new = advance(ring, bytes);
    *memory = ring->base + new->offset;
    *after = new->after;
    return HIL_OK;
}

void hil_ring_give(hil_ring *ring, void *memory, const hil_fence *after)
{
    piece *queue = ring->queue + ring->first;
    while (ring->next_given < ring->count && queue[ring->next_given].given) ++ring->next_given;
    assert(ring->next_given < ring->count);
    piece *given = &queue[ring->next_given++];
    assert(ring->base + given->offset == memory);
    given->after = after ? *after : (hil_fence){0};
    given->given = true;
}
