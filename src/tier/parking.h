/* parking.h - tensors that leave the device and come back later: activations between forward and
   backward, sums of gradients between micro-batches. */
#ifndef HIL_TIER_PARKING_H
#define HIL_TIER_PARKING_H

#include "tier/buffers.h"
#include "tier/ring.h"

typedef struct hil_parking hil_parking;

/* Parks tensors of `buffers`. `host_bytes` of the host tier hold what is parked there; what is
   parked on disk passes through `ring`. Borrows all of them. */
hil_status hil_parking_create(hil_parking **out, hil_tiers *tiers, hil_buffers *buffers,
                              hil_ring *ring, size_t host_bytes);
void hil_parking_destroy(hil_parking *parking);

/* A tensor and where it is. Zero it, then set data and bytes. */
typedef struct hil_parcel {
    void *data; /* on the device; NULL while it is away */
    size_t bytes;
    bool stored; /* a copy is at home */
    bool stale;  /* only its place is: see hil_parcel_change */
    hil_tier home;
    size_t host;       /* offset there */
    hil_extent extent; /* on disk */
    hil_fence ready;   /* the way in: data may be read */
    hil_fence left;    /* the way out: the copy at home is whole */
    uint64_t offload;  /* number of its last hil_parcel_offload_later */
} hil_parcel;

/* Starts the way out to `home` (HIL_HOST or HIL_DISK) and gives the device memory back. A parcel
   that is stored already and was not changed since just gives the memory back. */
hil_status hil_parcel_offload(hil_parking *parking, hil_parcel *parcel, hil_tier home);
/* The same, but the memory goes back some turns later: see [Note: late reuse] in parking.c. A
   parcel that is called before then is still here. */
hil_status hil_parcel_offload_later(hil_parking *parking, hil_parcel *parcel, hil_tier home);
/* A turn begins: who uses hil_parcel_offload_later says so, once for each visit of a segment. */
void hil_parking_turn(hil_parking *parking);
/* All memory that leaves goes back now; at the latest before destroy. */
void hil_parking_reclaim(hil_parking *parking);
/* Starts the way in; nothing when it is here. The copy at home stays. */
hil_status hil_parcel_prefetch(hil_parking *parking, hil_parcel *parcel);
/* Calls it if nobody did: what is computed from now on may read data. */
hil_status hil_parcel_wait(hil_parking *parking, hil_parcel *parcel, hil_wait_reason reason);
/* The device's copy was or will be changed: the one at home is forgotten. */
void hil_parcel_touch(hil_parking *parking, hil_parcel *parcel);
/* The same, but the next way out leads to the same place. */
void hil_parcel_change(hil_parcel *parcel);
/* Gives everything back: device memory, and the place at home. */
void hil_parcel_drop(hil_parking *parking, hil_parcel *parcel);

size_t hil_parking_peak(const hil_parking *parking); /* bytes of the host: the region's extent */

#endif
