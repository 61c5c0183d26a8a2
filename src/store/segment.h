/* segment.h - which weights and sums a segment may use. */
#ifndef HIL_STORE_SEGMENT_H
#define HIL_STORE_SEGMENT_H

#include "store/internal.h"

/* Declares that the segment may use the unit. */
hil_status hil_segment_declare(hil_store *store, int segment, size_t unit);
void hil_segments_free(hil_store *store);
/* Ends the current visit, if there is one. */
hil_status hil_segment_exit(hil_store *store);
/* [Note: same order] With several ranks, all ranks must gather and reduce in the same order. So
   what the visit has not pinned must be used in the known order of a training pass, which is the
   same on all ranks; any other use is an error. */
hil_status hil_segment_admit(const hil_store *store, const hil_param *param, int32_t entity);
/* Unpins everything after a failure. */
void hil_segment_drop(hil_store *store);

#endif
