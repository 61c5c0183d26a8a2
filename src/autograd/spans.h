/* spans.h - records when each segment was computed, for the timeline. */
#ifndef HIL_AUTOGRAD_SPANS_H
#define HIL_AUTOGRAD_SPANS_H

#include "autograd/model.h"
#include "tier/links.h"
#include "tier/timeline.h"

/* What was computed between two time stamps. */
typedef struct hil_span {
    const char *segment, *what;
} hil_span;

/* A device writes its time stamps into shared memory, which the host reads at the end of a pass.
   Without a device the operations of a segment have spans of their own. Open data: zero it, set the
   links, and the device, which is NULL for the CPU and for rehearsals. */
typedef struct hil_spans {
    hil_links *links;       /* borrowed: their clock is the CPU's, or that of a rehearsal */
    hil_device *device;     /* borrowed */
    hil_timeline *timeline; /* borrowed; NULL: none */
    double began;           /* the CPU's current span */
    double *stamp;          /* two per span */
    hil_span *span;
    int count;
} hil_spans;

hil_status hil_spans_begin(hil_spans *spans);
hil_status hil_spans_end(hil_spans *spans, const char *segment, const char *what);
/* The time before an operation, and its span after it. */
double hil_spans_operation_begin(const hil_spans *spans);
void hil_spans_operation_end(const hil_spans *spans, const char *name, bool backward, double began);
/* Adds the spans of a pass to the timeline. The device must be idle. */
void hil_spans_flush(hil_spans *spans);
void hil_spans_free(hil_spans *spans);

#endif
