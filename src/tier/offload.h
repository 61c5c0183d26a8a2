/* offload.h - offloads tensors from the device and brings them back: activations between forward
   and backward, sums of gradients between micro-batches. Not thread-safe: the caller's thread. */
#ifndef HIL_TIER_OFFLOAD_H
#define HIL_TIER_OFFLOAD_H

#include "tier/buffers.h"
#include "tier/ring.h"

typedef struct hil_offload hil_offload;

/* Offloads tensors of `buffers` to `host_bytes` of the host tier, or through the staging ring to
   disk. Borrows tiers, buffers and ring. */
hil_status hil_offload_create(hil_offload **out, hil_tiers *tiers, hil_buffers *buffers,
                              hil_ring *ring, size_t host_bytes, hil_pin_order pinned);
void hil_offload_destroy(hil_offload *offload);

/* A tensor that can be offloaded, and where it is. Zero it, then set data and bytes. Its home is
   the tier it is offloaded to. */
typedef struct hil_movable {
    void *data; /* on the device; NULL while offloaded */
    size_t bytes;
    bool stored; /* has memory or pages at home */
    bool stale;  /* the copy there is outdated: see hil_movable_set_dirty */
    hil_tier home;
    size_t host;       /* offset, if home is the host */
    hil_extent extent; /* if home is the disk */
    hil_fence ready;   /* the copy to the device: then data may be read */
    hil_fence left;    /* the copy-out: then the copy at home is complete */
    uint64_t late;     /* number of its last hil_movable_offload_later */
} hil_movable;

/* Starts the copy-out to `home` (HIL_HOST or HIL_DISK) and frees the device memory. A tensor whose
   copy at home is current is not copied again. */
hil_status hil_movable_offload(hil_offload *offload, hil_movable *movable, hil_tier home);
/* The same, but frees the device memory some turns later: see [Note: late reuse] in offload.c. A
   prefetch before then only takes that memory back. */
hil_status hil_movable_offload_later(hil_offload *offload, hil_movable *movable, hil_tier home);
/* Begins a turn: called once for each visit of a segment, with hil_movable_offload_later. */
void hil_offload_turn(hil_offload *offload);
/* Frees all device memory that hil_movable_offload_later holds; required before destroy. */
void hil_offload_reclaim(hil_offload *offload);
/* Starts the copy to the device, unless it is there. The copy at home stays. */
hil_status hil_movable_prefetch(hil_offload *offload, hil_movable *movable);
/* Prefetches it if needed; compute issued from now on may read data. */
hil_status hil_movable_wait(hil_offload *offload, hil_movable *movable, hil_wait_reason reason);
/* The device's copy changes: frees the copy at home. */
void hil_movable_discard_copy(hil_offload *offload, hil_movable *movable);
/* The device's copy changes: the next copy-out overwrites the copy at home. */
void hil_movable_set_dirty(hil_movable *movable);
/* Frees the device memory and the copy at home. */
void hil_movable_free(hil_offload *offload, hil_movable *movable);

size_t hil_offload_peak(const hil_offload *offload); /* high-water mark of host bytes */

#endif
