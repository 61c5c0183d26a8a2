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
typedef struct hil_boundaries {
    int segments;
    const hil_segment_place *place; /* borrowed, of each segment */
    hil_buffers *buffers;           /* borrowed; NULL: shapes only */
    hil_offload *offload;           /* borrowed; NULL: shapes only */
    int64_t slots;
    hil_outputs *outputs; /* [slot: micro-batch in a group][segment] */
} hil_boundaries;

hil_status hil_boundaries_reserve(hil_boundaries *boundaries, int64_t slots);
void hil_boundaries_free(hil_boundaries *boundaries);

static inline hil_outputs *hil_boundaries_at(const hil_boundaries *boundaries, int64_t slot,
                                             int segment)
{
    return &boundaries->outputs[slot * boundaries->segments + segment];
}
static inline hil_boundary *hil_boundaries_find(const hil_boundaries *boundaries, int64_t slot,
                                                int number)
{
    return &hil_boundaries_at(boundaries, slot, number / HIL_VALUES_MAX)
                ->value[number % HIL_VALUES_MAX];
}

/* Keeps the outputs of the tape's segment; takes over their memory from the tape. */
hil_status hil_boundaries_keep(hil_boundaries *boundaries, const hil_tape *tape,
                               const hil_values *out);

/* The memory of root `number`. _prefetch starts its fetch; _wait waits for that (*data: its
   address, NULL if there is no memory); _offload starts its copy to its tier; _take waits and
   passes the memory to the caller; _drop frees it. */
hil_status hil_boundaries_prefetch(hil_boundaries *boundaries, int64_t slot, int number);
hil_status hil_boundaries_wait(hil_boundaries *boundaries, int64_t slot, int number, void **data);
hil_status hil_boundaries_offload(hil_boundaries *boundaries, int64_t slot, int number);
hil_status hil_boundaries_take(hil_boundaries *boundaries, int64_t slot, int number, void **data);
void hil_boundaries_drop(hil_boundaries *boundaries, int64_t slot, int number);

/* The same for the gradient of `number`. _add adds `data` to it and takes over the memory. */
hil_status hil_boundaries_gradient_add(hil_boundaries *boundaries, int64_t slot, int number,
                                       const hil_context *context, void *data);
hil_status hil_boundaries_gradient_prefetch(hil_boundaries *boundaries, int64_t slot, int number);
hil_status hil_boundaries_gradient_offload(hil_boundaries *boundaries, int64_t slot, int number);
hil_status hil_boundaries_gradient_take(hil_boundaries *boundaries, int64_t slot, int number,
                                        void **data);

/* Frees all outputs of a segment, with their gradients. */
void hil_boundaries_clear(hil_boundaries *boundaries, int64_t slot, int segment);

#endif
