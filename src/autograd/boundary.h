/* boundary.h - boundary values, which one segment outputs and later ones read: where they are kept
   until their last reader is done. */
#ifndef HIL_AUTOGRAD_BOUNDARY_H
#define HIL_AUTOGRAD_BOUNDARY_H

#include "autograd/tape.h"
#include "store/plan.h"
#include "tier/offload.h"

/* [Note: boundaries] A boundary value has the number segment * HIL_VALUES_MAX + index, for output
   `index` of `segment`. The root of a value is the value that owns its memory: itself, or an
   earlier value that a segment outputs unchanged. Later segments read it in forward and in
   backward; after the backward of the next segment, only the tape that made it may still read it.
   Between two uses, memory and gradient are offloaded to the tier of the segment's place, unless
   that is the device.
 */
typedef struct hil_boundary {
    const char *name;
    hil_tensor tensor;    /* data: valid until the memory is offloaded */
    const int32_t *ids;   /* see hil_value */
    int root;             /* number of the value that owns its memory; -1: the batch */
    bool wants;           /* needs a gradient */
    hil_movable memory;   /* if it is its own root */
    hil_movable gradient; /* the sum of those of later segments so far */
} hil_boundary;

/* The outputs of one segment for one micro-batch. */
typedef struct hil_outputs {
    int count;
    bool wants; /* the segment has a backward */
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

/* Keeps the outputs of the tape's segment; takes over their memory from the tape. */
hil_status hil_bounds_keep(hil_bounds *bounds, const hil_tape *tape, const hil_values *out);

/* The memory of root `number`. _prefetch starts its fetch; _wait waits for that (*data: its
   address, NULL if there is no memory); _offload starts its copy to its tier; _take waits and
   passes the memory to the caller; _drop frees it. */
hil_status hil_bounds_prefetch(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_wait(hil_bounds *bounds, int64_t slot, int number, void **data);
hil_status hil_bounds_offload(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_take(hil_bounds *bounds, int64_t slot, int number, void **data);
void hil_bounds_drop(hil_bounds *bounds, int64_t slot, int number);

/* The same for the gradient of `number`. _add adds `data` to it and takes over the memory. */
hil_status hil_bounds_gradient_add(hil_bounds *bounds, int64_t slot, int number,
                                   const hil_context *context, void *data);
hil_status hil_bounds_gradient_prefetch(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_gradient_offload(hil_bounds *bounds, int64_t slot, int number);
hil_status hil_bounds_gradient_take(hil_bounds *bounds, int64_t slot, int number, void **data);

/* Frees all outputs of a segment, with their gradients. */
void hil_bounds_clear(hil_bounds *bounds, int64_t slot, int segment);

#endif
