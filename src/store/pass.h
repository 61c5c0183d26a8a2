/* pass.h - one pass of micro-batches: visits of segments, weights around their use, sums of
 * gradients. */
#ifndef HIL_STORE_PASS_H
#define HIL_STORE_PASS_H

#include "store/param.h"

/* A pass is what the engine does in one go; each kind has its own order of uses. */
typedef enum hil_pass { HIL_PASS_TRAIN, HIL_PASS_LOSS, HIL_PASS_GENERATE, HIL_PASSES } hil_pass;
hil_status hil_store_pass_begin(hil_store *store, hil_pass pass);
/* The pass is at a fixed point of its order: see [Note: repair] in order.h. */
hil_status hil_store_pass_mark(hil_store *store);
/* [Note: visits] A segment is visited for a micro-batch, forward or backward. Where the plan goes
   by segment, entering it brings all weights that were declared for it, and in backward their sums,
   and holds them until the next is entered or this one is left. What the model then asks for is
   there, in any order, any number of times, or never: what moves follows from the sequence of
   visits alone. Without, uses are brought one by one, and entering is a mark. */
typedef enum hil_direction { HIL_FORWARD, HIL_BACKWARD } hil_direction;
#define HIL_NOWHERE (-1)
typedef struct hil_stop {
    int segment;
    hil_direction way;
    const char *name; /* of the segment, for messages; borrowed until the pass ends */
} hil_stop;
hil_status hil_store_pass_enter(hil_store *store, const hil_stop *stop);
/* Before the gradients of the segment are given. The end of a pass does it too. */
hil_status hil_store_pass_exit(hil_store *store);
hil_status hil_store_pass_end(hil_store *store);
/* [Note: renewal] Every few micro-batches, between two groups, the window is emptied as at the
   beginning of a step, and nothing is prefetched across that point. If some sums had to be spilled,
   all are, each to the place that it got first. So all periods between two renewals but the first
   and the last move the same bytes to the same places, and a rehearsal of three periods predicts
   any number of them exactly. The run does this for the planner's sake: without it, what the window
   holds at the end of one group decides what the next one fetches, and may never repeat. It costs
   a fetch of the first segments' weights per period. */
hil_status hil_store_pass_renew(hil_store *store);
/* Where a training pass is, behind a renewal. */
typedef struct hil_pass_state {
    uint64_t digest; /* of all that is in the window, and of the sums that are not, and where */
    size_t uses, marks, renewals; /* so far */
} hil_pass_state;
void hil_store_pass_state(const hil_store *store, hil_pass_state *out);
/* The known order of training passes has what is between two states `times` more. */
hil_status hil_store_pass_repeat(hil_store *store, const hil_pass_state state[2], int64_t times);
/* The next training passes begin where that state was, until the order is restored. */
hil_status hil_store_pass_cut(hil_store *store, const hil_pass_state *state);
hil_status hil_store_pass_restore(hil_store *store);
/* How often the order was repaired so far, all kinds together. */
int64_t hil_store_repairs(const hil_store *store);
/* Weights and sums that were fetched when they were needed and not ahead, so far. */
int64_t hil_store_misses(const hil_store *store);
/* After a failure in the middle of a pass. */
void hil_store_pass_drop(hil_store *store);

/* Around a use, one tile of rows at a time. */
hil_status hil_store_acquire(hil_store *store, hil_param *param, int64_t tile, const void **data);
void hil_store_release(hil_store *store, hil_param *param, int64_t tile);

/* The fp32 sum of one tile's gradient for the use in `segment`, to be added to. At the first call
   of a step `add` is false: the sum holds anything, and all of it must be written. With NULL for
   `add` it is zeroed then. */
hil_status hil_store_sum_acquire(hil_store *store, hil_param *param, int segment, int64_t tile,
                                 float **sum, bool *add);
void hil_store_sum_release(hil_store *store, hil_param *param, int segment, int64_t tile);
/* The sums of all uses in `segment` are complete: each is rounded once to the parameter's dtype and
   leaves for its home. A parameter that got no sum in this step, on any rank, has no gradient. */
hil_status hil_store_give_gradients(hil_store *store, int segment);

#endif
