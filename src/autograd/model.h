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

/* [Note: adapters] An adapter changes the linear layer of a frozen weight W (out x in):

       LoRA  y = x W' + bias + scale * dropout(x) A' B'
       DoRA  y = (m / n) * (x W' + scale * x A' B') + bias

   A (rank x in), B (out x rank) and m (out) are trained; n has the norms of the rows of W + scale B
   A. Models call hil_linear as without an adapter. */
typedef struct hil_adapter {
    hil_param *a, *b;
    hil_param *magnitude; /* m; NULL: LoRA */
    double scale, dropout;
} hil_adapter;

struct hil_model {
    hil_arena arena;
    hil_store *store;
    hil_segment *segments;
    size_t count, capacity;
    hil_extra *extra;
    size_t extras, extras_room;
    hil_adapter **adapter; /* by hil_param_index of the weight; NULL: it has none */
    size_t adapters;       /* entries of that list */
    /* Set by hil_engine_trace. */
    bool traced;
    int *last_reader; /* by number of a boundary value: the last segment that reads it with
                         hil_earlier; 0: none does */
    bool branches;    /* paths may depend on tokens: other values may be read */
    int64_t vocab;    /* columns of the logits */
};

/* Gives a matrix an adapter (copied), whose parameters are registered. Before the first trace. */
hil_status hil_model_adapt(hil_model *model, const hil_param *weight, const hil_adapter *adapter);
/* NULL: the matrix has none. */
const hil_adapter *hil_model_adapter(const hil_model *model, const hil_param *weight);

#endif
