/* engine.h - passes of micro-batches through a model's segments, forward and backward. */
#ifndef HIL_AUTOGRAD_ENGINE_H
#define HIL_AUTOGRAD_ENGINE_H

#include "autograd/tape.h"
#include "store/plan.h"
#include "tier/ring.h"
#include "tier/timeline.h"
#include "comm/comm.h"

typedef struct hil_engine hil_engine;

typedef struct hil_engine_options {
    hil_pool *pool; /* borrowed */
    hil_dtype compute;
    int64_t group; /* micro-batches that pass a segment together; 0: all of a step */
    const hil_segment_place *segment; /* one for each, copied; NULL: backward finds everything */
    hil_tiers *tiers;                 /* borrowed, like the ring */
    size_t work;                      /* device bytes for tensors */
    hil_ring *ring;                   /* for what waits on disk; NULL: nothing does */
    size_t parked;                    /* host bytes for values that wait there */
    bool prefetch;                    /* of what the next visits read */
    hil_comm *comm;                   /* borrowed; told where this rank is. NULL: alone */
    const hil_speeds *speeds;         /* borrowed; of a rehearsal */
    void (*renewed)(void *context);   /* called at every renewal; NULL: nobody asks */
    void *context;
} hil_engine_options;

/* The store's window is renewed between groups after so many micro-batches: [Note: renewal] in
   store.h. The more segments, the less it costs to fetch the first of them again, and the longer
   a period takes to rehearse. */
static inline int64_t hil_engine_period(size_t segments)
{
    int64_t period = 256 / (int64_t)segments;
    return period > 8 ? 8 : period < 2 ? 2 : period;
}

/* Runs the model once on shapes to learn which segment uses which parameter: their uses are then
   declared. hil_engine_create does it where it was not done. The store's parameters have their
   tiles. */
hil_status hil_engine_trace(hil_model *model, hil_dtype compute);

/* [Note: rehearsal] An engine with a dry pool does everything but arithmetic: every tensor has its
   place, every tile is asked for, in the same order; no data is read or written, the arrays of a
   micro-batch may be NULL, and losses are 0.

   Borrows the model. */
hil_status hil_engine_create(hil_engine **out, hil_model *model, const hil_engine_options *options);
void hil_engine_destroy(hil_engine *engine);

/* Forward and backward of all micro-batches of a step: every gradient is given to the store.
   `scale` is what one position's loss weighs in the step's. */
typedef struct hil_step {
    const hil_micro *micro;
    int64_t count;
    uint64_t seed;
    int64_t step;
    float scale;
} hil_step;
/* Returns when a device was told all of it; the micro-batches' arrays are the caller's again. */
hil_status hil_engine_begin(hil_engine *engine, const hil_step *step);
/* Waits for it: the loss summed over all positions. */
hil_status hil_engine_wait(hil_engine *engine, double *loss);
/* Both. */
hil_status hil_engine_train(hil_engine *engine, const hil_step *step, double *loss);

/* The loss summed over one micro-batch's positions, without gradients. */
hil_status hil_engine_loss(hil_engine *engine, const hil_micro *micro, double *loss);
/* Logits (sequences, length, vocabulary) as fp32. */
hil_status hil_engine_logits(hil_engine *engine, const hil_micro *micro, float *logits);

/* Generation: the positions of `micro` (one sequence) extend the cache; logits of the last one. */
hil_status hil_engine_cache_begin(hil_engine *engine, int64_t positions);
hil_status hil_engine_extend(hil_engine *engine, const hil_micro *micro, float *logits);
void hil_engine_cache_end(hil_engine *engine);

/* Computing is written there while it is set; NULL: nowhere. Borrowed. */
void hil_engine_set_timeline(hil_engine *engine, hil_timeline *timeline);

/* What `work` and `parked` must be at least to do again what was done. */
size_t hil_engine_work(const hil_engine *engine);
size_t hil_engine_parked(const hil_engine *engine);
/* Visits of segments that the last training pass began; it may have failed in the last of them. */
int64_t hil_engine_visits(const hil_engine *engine);
int64_t hil_engine_vocab(const hil_engine *engine);

#endif
