/* spans.h - when which segment was computed, for the timeline. */
#ifndef HIL_AUTOGRAD_SPANS_H
#define HIL_AUTOGRAD_SPANS_H

#include "autograd/model.h"
#include "tier/timeline.h"

/* What was done in the time between two stamps. */
typedef struct hil_span {
    const char *segment, *what;
} hil_span;

/* A device writes its times itself, into shared memory that is read at the end of a pass. Open
   data: zero it and set the device, which is NULL for the CPU and for rehearsals. */
typedef struct hil_spans {
    hil_device *device;     /* borrowed */
    hil_timeline *timeline; /* borrowed; NULL: none */
    double began;           /* the CPU's */
    double *stamp;          /* two of each span */
    hil_span *span;
    int count;
} hil_spans;

hil_status hil_spans_begin(hil_spans *spans);
hil_status hil_spans_end(hil_spans *spans, const char *segment, const char *what);
/* The pass is over, and so is what the device was told: its spans go to the timeline. */
void hil_spans_flush(hil_spans *spans);
void hil_spans_free(hil_spans *spans);

#endif
