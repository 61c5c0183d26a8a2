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

/* A parameter that a segment may use besides those of its usual path: hil_model_use. */
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
    /* Set by hil_engine_trace. */
    bool traced;
    bool reads_earlier; /* some segment calls hil_earlier */
    int64_t vocab;      /* columns of the logits */
};

#endif
