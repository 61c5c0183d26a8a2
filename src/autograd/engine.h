/* engine.h - runs a model's segments for micro-batches, forward and backward. Everything runs on
   the calling thread, or is queued on the device by it. */
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
    int64_t group; /* micro-batches that a segment runs before the next one; 0: all of a step */
    const hil_segment_place
        *segment;             /* one per segment, copied; NULL: all tapes stay on the device */
    hil_tiers *tiers;         /* borrowed, like the ring */
    size_t work;              /* device bytes for tensors */
    size_t expanded;          /* of these, for quantized weights that stay expanded; whole pages */
    hil_ring *ring;           /* staging of tensors on disk; NULL: none are */
    size_t offloaded;         /* host bytes for offloaded tensors */
    bool prefetch;            /* of what the next visits read */
    hil_comm *comm;           /* borrowed; shows what this rank does. NULL: one rank */
    const hil_speeds *speeds; /* borrowed; in a rehearsal only */
    const double
        *share; /* borrowed: of an operation's seconds in each segment; NULL: all of them */
    hil_preference_loss preference;
    /* Called at every renewal, on the caller's thread, or NULL. *again, false before: the
       micro-batches since the last renewal run once more. */
    hil_status (*renewed)(void *context, bool *again);
    void *context;
} hil_engine_options;

/* Micro-batches between two renewals of the store's window: [Note: renewal] in pass.h. With more
   segments, a renewal costs a smaller part of the step, and a period takes longer to rehearse. */
static inline int64_t hil_engine_period(size_t segments)
{
    int64_t period = 256 / (int64_t)segments;
    return period > 8 ? 8 : period < 2 ? 2 : period;
}

/* Runs the model once on shapes only, and declares to the store which segment uses which parameter.
   After hil_store_arrange. hil_engine_create does it if it was not done before. */
hil_status hil_engine_trace(hil_model *model, hil_dtype compute);

/* [Note: rehearsal] An engine with a dry pool does everything but arithmetic: it places every
   tensor and acquires every tile, in the same order, but reads and writes no data. The arrays of a
   micro-batch may be NULL, and losses are 0.

   The engine borrows the model. */
hil_status hil_engine_create(hil_engine **out, hil_model *model, const hil_engine_options *options);
void hil_engine_destroy(hil_engine *engine);

/* Forward and backward of all micro-batches of a step; all gradients are given to the store.
   `scale`: the weight of one position's loss in the step's loss. */
typedef struct hil_step {
    const hil_micro *micro;
    int64_t count;
    uint64_t seed;
    int64_t step;
    float scale;
    double token_weight; /* of hil_preference_attr */
} hil_step;
/* Computes the step on the CPU, or queues all of it on the device. The micro-batches' arrays are
   borrowed during the call only. */
hil_status hil_engine_begin(hil_engine *engine, const hil_step *step);
/* Blocks until it is computed. *loss: summed over all positions, or pairs. */
hil_status hil_engine_wait(hil_engine *engine, double *loss);
/* All that the last pass added up: the numbers of pairs, or with cross-entropy the loss and
   HIL_LOSS_AUXILIARY, of positions. */
void hil_engine_numbers(const hil_engine *engine, double out[HIL_PREFERENCES]);
/* hil_preference_attr.kl of all later passes; 0 at first. */
void hil_engine_set_kl(hil_engine *engine, double kl);
/* hil_engine_begin and hil_engine_wait. */
hil_status hil_engine_train(hil_engine *engine, const hil_step *step, double *loss);

/* The loss summed over one micro-batch's positions, or pairs, without gradients. */
hil_status hil_engine_loss(hil_engine *engine, const hil_micro *micro, double *loss);
/* The loss of every position (sequences, length) of the model without adapters, as fp32. */
hil_status hil_engine_reference(hil_engine *engine, const hil_micro *micro, float *losses);
/* Logits (sequences, length, vocabulary) as fp32. */
hil_status hil_engine_logits(hil_engine *engine, const hil_micro *micro, float *logits);

/* In a rehearsal: bytes of outputs and tapes of layers that wait on each tier when the forward of
   a group is over, at most. */
void hil_engine_kept(const hil_engine *engine, uint64_t kept[HIL_TIERS]);

/* Generation: appends the positions of `micro` (one sequence) to the key-value cache; the logits of
   the last position. */
hil_status hil_engine_cache_begin(hil_engine *engine, int64_t positions);
hil_status hil_engine_extend(hil_engine *engine, const hil_micro *micro, float *logits);
/* Forgets all but the first `length` positions, or more: those that recurrences cannot take back.
   Returns how many are kept. */
int64_t hil_engine_cache_cut(hil_engine *engine, int64_t length);
void hil_engine_cache_end(hil_engine *engine);

/* Called on the caller's thread before each segment of a pass without gradients. A failure ends the
   pass; the cache keeps the length it had, and another pass may begin. NULL: no calls. */
typedef hil_status (*hil_engine_watch)(void *context, int segment, int segments);
void hil_engine_set_watch(hil_engine *engine, hil_engine_watch watch, void *context);

/* While set, spans of computing are written to it; NULL: not. Borrowed. */
void hil_engine_set_timeline(hil_engine *engine, hil_timeline *timeline);

/* High-water marks: the least `work`, `expanded` and `offloaded` that suffice for the same passes.
 */
size_t hil_engine_expanded(const hil_engine *engine);
size_t hil_engine_work(const hil_engine *engine);
size_t hil_engine_offloaded(const hil_engine *engine);
/* Visits that the last training pass began; if it failed, it did so in the last of them. */
int64_t hil_engine_visits(const hil_engine *engine);
int64_t hil_engine_vocab(const hil_engine *engine);

#endif
