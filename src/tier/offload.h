/* offload.h - tensors that leave the device and come back later: activations between forward and
   backward, sums of gradients between micro-batches. */
#ifndef HIL_TIER_OFFLOAD_H
#define HIL_TIER_OFFLOAD_H

#include "tier/buffers.h"
#include "tier/ring.h"

typedef struct hil_offload hil_offload;

/* Parks tensors of `buffers`. `host_bytes` of the host tier hold what is parked there; what is
   parked on disk passes through `ring`. Borrows all of them. */
hil_status hil_offload_create(hil_offload **out, hil_tiers *tiers, hil_buffers *buffers,
                              hil_ring *ring, size_t host_bytes);
void hil_offload_destroy(hil_offload *offload);

/* A tensor and where it is. Zero it, then set data and bytes. */
typedef struct hil_movable {
    void *data; /* on the device; NULL while it is away */
    size_t bytes;
    bool stored; /* a copy is at home */
    bool stale;  /* only its place is: see hil_movable_set_dirty */
    hil_tier home;
    size_t host;       /* offset there */
    hil_extent extent; /* on disk */
    hil_fence ready;   /* the way in: data may be read */
    hil_fence left;    /* the way out: the copy at home is whole */
    uint64_t late;     /* number of its last hil_movable_offload_later */
} hil_movable;

/* Starts the way out to `home` (HIL_HOST or HIL_DISK) and gives the device memory back. A movable
   that is stored already and was not changed since just gives the memory back. */
hil_status hil_movable_offload(hil_offload *offload, hil_movable *movable, hil_tier home);
/* The same, but the memory goes back some turns later: see [Note: late reuse] in offload.c. A
   movable that is called before then is still here. */
hil_status hil_movable_offload_later(hil_offload *offload, hil_movable *movable, hil_tier home);
/* A turn begins: who uses hil_movable_offload_later says so, once for each visit of a segment. */
void hil_offload_turn(hil_offload *offload);
/* All memory that leaves goes back now; at the latest before destroy. */
void hil_offload_reclaim(hil_offload *offload);
/* Starts the way in; nothing when it is here. The copy at home stays. */
hil_status hil_movable_prefetch(hil_offload *offload, hil_movable *movable);
/* Calls it if nobody did: what is computed from now on may read data. */
hil_status hil_movable_wait(hil_offload *offload, hil_movable *movable, hil_wait_reason reason);
/* The device's copy was or will be changed: the one at home is forgotten. */
void hil_movable_discard_copy(hil_offload *offload, hil_movable *movable);
/* The same, but the next way out leads to the same place. */
void hil_movable_set_dirty(hil_movable *movable);
/* Gives everything back: device memory, and the place at home. */
void hil_movable_free(hil_offload *offload, hil_movable *movable);

size_t hil_offload_peak(const hil_offload *offload); /* bytes of the host: the region's extent */

#endif
