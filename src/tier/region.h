/* region.h - sub-allocates a fixed range of one tier. Addresses depend on the order of calls alone,
   so a rehearsal without memory predicts every address and the high-water mark. */
#ifndef HIL_TIER_REGION_H
#define HIL_TIER_REGION_H

#include "tier/fence.h"

/* Not thread-safe: one thread takes and gives back. Owns only its bookkeeping, not the range. */
typedef struct hil_region hil_region;

/* A range of `bytes`; blocks begin and end at multiples of `align` (a power of two). */
hil_status hil_region_create(hil_region **out, size_t bytes, size_t align);
void hil_region_destroy(hil_region *region);

/* Allocates from the best-fitting free block, the lowest of equals. *after has the transfers that
   previous users have in flight there: a write must wait for them. *found is false when no free
   block is large enough; the status is only that of allocating the bookkeeping. */
hil_status hil_region_take(hil_region *region, size_t bytes, size_t *offset, hil_fence *after,
                           bool *found);
/* Whether hil_region_take would find a block now. */
bool hil_region_fits(const hil_region *region, size_t bytes);
/* Frees the block; its next user waits for `after` (NULL: for nothing). */
void hil_region_give(hil_region *region, size_t offset, const hil_fence *after);

/* Bytes taken now, and their high-water mark. */
size_t hil_region_used(const hil_region *region);
size_t hil_region_peak(const hil_region *region);
/* The end of the highest block so far: a range of this size suffices for the same calls. */
size_t hil_region_extent(const hil_region *region);

#endif
