/* timeline.h - writes `--trace`: spans as a Chrome trace, for Perfetto and chrome://tracing. */
#ifndef HIL_TIER_TIMELINE_H
#define HIL_TIER_TIMELINE_H

#include "tier/fence.h"

/* Tracks: the links, then these. */
enum {
    HIL_TRACK_COMPUTE = HIL_LINK_COMPUTE,
    HIL_TRACK_OPERATIONS, /* of the segments in computing */
    HIL_TRACK_WAIT,
    HIL_TRACKS
};

/* Owns the file and a fixed buffer; allocates nothing after open. */
typedef struct hil_timeline hil_timeline;

/* Replaces the file `path`, whose time begins at `origin`, in seconds of the clock of its spans:
   hil_clock_now, or that of a rehearsal. Flushed spans can be loaded even if the run is killed. */
hil_status hil_timeline_open(hil_timeline **out, const char *path, double origin);
/* Adds a span to a track (a hil_link or HIL_TRACK_*). The name is copied and cut off at 47 bytes.
   Thread-safe. A failed write surfaces at flush. */
void hil_timeline_add(hil_timeline *timeline, int track, const char *name, double start, double end,
                      uint64_t bytes);
/* Writes all spans added so far. */
hil_status hil_timeline_flush(hil_timeline *timeline);
/* Writes the rest and the closing bracket. NULL is fine. */
void hil_timeline_close(hil_timeline *timeline);

#endif
