/* region.h - sub-allocates a fixed range of one tier. Where a block lies follows from the order of
   calls alone, so a rehearsal without memory predicts every address and the peak. */
#ifndef HIL_TIER_REGION_H
#define HIL_TIER_REGION_H

#include "tier/fence.h"

/* Not thread-safe: one thread takes and gives back. Owns no memory, only numbers. */
typedef struct hil_region hil_region;

/* `bytes` in all; blocks begin and end at multiples of `align` (a power of two). */
hil_status hil_region_create(hil_region **out, size_t bytes, size_t align);
void hil_region_destroy(hil_region *region);

/* The best-fitting free block, the lowest of equals. *after is what must be over before anybody
   writes there: transfers that still read or write for the previous owners. *found is false when no
   free block is large enough; the status is for the region's own bookkeeping. */
hil_status hil_region_take(hil_region *region, size_t bytes, size_t *offset, hil_fence *after,
                           bool *found);
/* Whether a take would find a block. */
bool hil_region_fits(const hil_region *region, size_t bytes);
/* The block is free as soon as `after` (NULL: at once) is over. */
void hil_region_give(hil_region *region, size_t offset, const hil_fence *after);

/* Bytes taken now, and the most at any time so far. */
size_t hil_region_used(const hil_region *region);
size_t hil_region_peak(const hil_region *region);
/* The end of the highest block ever taken: what the region needs to work as it did. */
size_t hil_region_extent(const hil_region *region);

#endif
