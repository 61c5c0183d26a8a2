/* timeline.h - what happened when, as a Chrome trace: Perfetto and chrome://tracing open it. */
#ifndef HIL_TIER_TIMELINE_H
#define HIL_TIER_TIMELINE_H

#include "tier/fence.h"

/* One row of the picture each: the links, then these. */
enum { HIL_TRACK_COMPUTE = HIL_LINK_COMPUTE, HIL_TRACK_WAIT, HIL_TRACKS };

/* Owns the file and a fixed buffer: nothing is allocated after open. */
typedef struct hil_timeline hil_timeline;

/* Replaces the file `path`. Whatever ends the run, what was flushed loads. */
hil_status hil_timeline_open(hil_timeline **out, const char *path);
/* A span on a track (a hil_link or HIL_TRACK_*), in seconds of hil_clock_now. The name is copied as
   far as there is room. Thread-safe. A write that fails surfaces at flush. */
void hil_timeline_add(hil_timeline *timeline, int track, const char *name, double start, double end,
                      uint64_t bytes);
/* Everything added so far is in the file. */
hil_status hil_timeline_flush(hil_timeline *timeline);
/* Ends the file. NULL is fine. */
void hil_timeline_close(hil_timeline *timeline);

#endif
