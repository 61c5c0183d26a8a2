/* ring.h - staging between disk and device: pieces of one block of host memory, handed out in a
   circle. A piece waits for the transfers of those that lay there before. */
#ifndef HIL_TIER_RING_H
#define HIL_TIER_RING_H

#include "tier/tiers.h"

typedef struct hil_ring hil_ring;

/* Takes `bytes` of the host tier until the tiers are closed. */
hil_status hil_ring_create(hil_ring **out, hil_tiers *tiers, size_t bytes);
void hil_ring_destroy(hil_ring *ring);
size_t hil_ring_bytes(const hil_ring *ring);

/* A piece of at most hil_ring_bytes, aligned to HIL_IO_ALIGN; *after is what must be over before
   it is written. Belongs to the caller until hil_ring_give, and gives are in order of takes. */
hil_status hil_ring_take(hil_ring *ring, size_t bytes, void **memory, hil_fence *after);
/* The next piece lies at the start: so the same takes use the same places. Nothing is held. */
hil_status hil_ring_rewind(hil_ring *ring);
/* The piece is free when `after` is over. */
void hil_ring_give(hil_ring *ring, void *memory, const hil_fence *after);

#endif
