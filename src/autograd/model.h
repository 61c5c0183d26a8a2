/* model.h - a model as the engine sees it: segments in order, and the store of its parameters. */
#ifndef HIL_AUTOGRAD_MODEL_H
#define HIL_AUTOGRAD_MODEL_H

#include "hilbert/nn.h"

#include "base/arena.h"
#include "store/param.h"

typedef struct hil_segment {
    const char *name;
    hil_segment_fn *run;
    void *layer;
} hil_segment;

/* What a segment may use besides what its usual path does. */
typedef struct hil_extra {
    int segment;
    hil_param *param;
} hil_extra;

struct hil_model {
    hil_arena arena;
    hil_store *store;
    hil_segment *segments;
    size_t count, capacity;
    hil_extra *extra;
    size_t extras, extras_room;
    /* Known when it was traced. */
    bool traced;
    bool reads_earlier; /* some segment reads more than its predecessor's values */
    int64_t vocab;      /* columns of the logits */
};

#endif
