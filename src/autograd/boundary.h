/* boundary.h - values that leave segments: where they wait until their last reader is done. */
#ifndef HIL_AUTOGRAD_BOUNDARY_H
#define HIL_AUTOGRAD_BOUNDARY_H

#include "autograd/tape.h"
#include "store/plan.h"
#include "tier/offload.h"

/* [Note: boundaries] A value that leaves a segment is numbered by where it came from: segment *
   HIL_VALUES_MAX + place. Its memory is that of its root: its own, or that of an earlier value
   which merely passes through. Later segments read it in forward and in backward; when the backward
   of the next segment is done, only the tape that made it may still do so. In between, memory and
   gradient wait in the tier of the segment's place. */
typedef struct hil_boundary {
    const char *name;
    hil_tensor tensor;    /* data: right while nobody has sent the memory away */
    const int32_t *ids;   /* see hil_value */
    int root;             /* number of the value whose memory it shows; -1: the batch's */
    bool wants;           /* a gradient */
    hil_movable memory;   /* where it is its own root */
    hil_movable gradient; /* what later segments have sent back so far */
} hil_boundary;

/* What one segment gave out for one micro-batch. */
typedef struct hil_outputs {
    int count;
    bool wants; /* the segment takes part in backward */
    hil_boundary *value;
    size_t room;
} hil_outputs;

/* Open data: zero it and set the first four. */
typedef struct hil_bounds {
    int segments;
    const hil_segment_place *place; /* borrowed, of each segment */
    hil_buffers *buffers;           /* borrowed; NULL: shapes only */
    hil_offload *offload;           /* borrowed; NULL: shapes only */
    int64_t slots;
    hil_outputs *outputs; /* [slot: micro-batch in a group][segment] */
} hil_bounds;

hil_status hil_bounds_reserve(hil_bounds *bounds, int64_t slots);
void hil_bounds_free(hil_bounds *bounds);

static inline hil_outputs *hil_bounds_at(const hil_bounds *bounds, int64_t slot, int segment)
{
    return &bounds->outputs[slot * bounds->segments + segment];
}
static inline hil_boundary *hil_bounds_find(const hil_bounds *bounds, int64_t slot, int number)
{
    return &hil_bounds_at(bounds, slot, number / HIL_VALUES_MAX)->value[number % HIL_VALUES_MAX];
}

/* Keeps what the tape's segment gave out, with the memory of what it made. */
hil_status hil_bounds_keep(hil_bounds *bounds, const hil_tape *tape, const hil_values *out);

/* Memory of the root `number`: starts its way in; waits for it, *data is where it is now (NULL:
   there is none); lets it go to its tier; hands it over; gives it up. */
hil_status hil_bounds_call(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_wait(hil_bounds *bounds, int64_t slot, int number, void **data);
hil_status hil_bounds_send(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_take(hil_bounds *bounds, int64_t slot, int number, void **data);
void hil_bounds_drop(hil_bounds *bounds, int64_t slot, int number);

/* The same for the gradient of `number`. Adding takes `data` over. */
hil_status hil_bounds_gradient_add(hil_bounds *bounds, int64_t slot, int number,
                                   const hil_context *context, void *data);
hil_status hil_bounds_gradient_call(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_gradient_send(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_gradient_take(hil_bounds *bounds, int64_t slot, int number, void **data);

/* Gives up everything that a segment gave out. */
void hil_bounds_clear(hil_bounds *bounds, int64_t slot, int segment);

#endif
