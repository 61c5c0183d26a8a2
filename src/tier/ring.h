/* ring.h - the staging ring buffer between disk and device, in host memory. A new piece waits for
   the transfers of the pieces it overwrites. */
#ifndef HIL_TIER_RING_H
#define HIL_TIER_RING_H

#include "tier/tiers.h"

typedef struct hil_ring hil_ring;

/* Reserves `bytes` of the host tier until the tiers are closed; keeps nothing else of them. Not
   thread-safe. */
hil_status hil_ring_create(hil_ring **out, hil_tiers *tiers, size_t bytes);
void hil_ring_destroy(hil_ring *ring);
size_t hil_ring_bytes(const hil_ring *ring);

/* The next piece of at most hil_ring_bytes, aligned to HIL_IO_ALIGN; a write must wait for *after.
   The caller has it until hil_ring_give; pieces are given back in the order they were taken. */
hil_status hil_ring_take(hil_ring *ring, size_t bytes, void **memory, hil_fence *after);
/* Makes the next piece begin at offset 0, so that the same takes get the same addresses. All pieces
   must have been given back. */
hil_status hil_ring_rewind(hil_ring *ring);
/* Makes the next pieces, of `bytes` in all, adjacent: skips to offset 0 unless they fit before the
   end. All pieces must have been given back. */
hil_status hil_ring_fit(hil_ring *ring, size_t bytes);
/* Frees the oldest piece; its next user waits for `after`. */
void hil_ring_give(hil_ring *ring, void *memory, const hil_fence *after);

#endif
