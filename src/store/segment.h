/* segment.h - which weights and sums a segment may use. */
#ifndef HIL_STORE_SEGMENT_H
#define HIL_STORE_SEGMENT_H

#include "store/inside.h"

/* The segment may use the unit. */
hil_status hil_segment_declare(hil_store *store, int segment, size_t unit);
void hil_segments_free(hil_store *store);
/* The visit is over. */
hil_status hil_segment_exit(hil_store *store);
/* [Note: same order] With several ranks, what the visit does not hold must be used in the known
   order of a training pass, which is everybody's: anything else is an error. */
hil_status hil_segment_admit(const hil_store *store, const hil_param *param, int32_t entity);
/* After a failure. */
void hil_segment_drop(hil_store *store);

#endif
