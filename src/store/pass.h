/* pass.h - one pass over micro-batches: visits of segments, acquire and release of weights, sums of
   gradients. One thread makes all these calls. */
#ifndef HIL_STORE_PASS_H
#define HIL_STORE_PASS_H

#include "store/param.h"

/* A pass is one run of the engine: a training step, a loss, or a forward that generates. Each kind
   has its own order of uses. All ranks begin a pass together: one that fails to must tell the
   others (hil_comm_fail). */
typedef enum hil_pass { HIL_PASS_TRAIN, HIL_PASS_LOSS, HIL_PASS_GENERATE, HIL_PASSES } hil_pass;
hil_status hil_store_pass_begin(hil_store *store, hil_pass pass);
/* Marks a point that every pass of this kind reaches: see [Note: repair] in order.h. */
hil_status hil_store_pass_mark(hil_store *store);
/* [Note: visits] A visit runs a segment for one micro-batch, forward or backward. With
   plan.by_segment, entering a segment fetches and pins all weights that were declared for it, and
   in backward their sums, until the visit ends. The model may then use them in any order, any
   number of times, or not at all: transfers depend on the sequence of visits only. Without it,
   each use fetches what it needs, and entering is only a mark. */
typedef enum hil_direction { HIL_FORWARD, HIL_BACKWARD } hil_direction;
#define HIL_NOWHERE (-1)
typedef struct hil_segment_visit {
    int segment;
    hil_direction direction;
    const char *name; /* of the segment, for messages; borrowed until the pass ends */
} hil_segment_visit;
hil_status hil_store_pass_enter(hil_store *store, const hil_segment_visit *visit);
/* Ends the visit: before the gradients of the segment are given. Entering another segment and
   ending the pass end it too. */
hil_status hil_store_pass_exit(hil_store *store);
hil_status hil_store_pass_end(hil_store *store);
/* [Note: idle experts] An expert is idle in a visit in which it has no tokens: its weight is not
   read, and need not be fetched. The window still reserves its place at the planned time, so
   everything else moves as planned; only the bytes stay where they are. Which experts are idle is
   decided at fixed places, never by timing:
   - When prefetch reaches a use in a backward visit, and all forward visits of the group have run,
     experts that none of its micro-batches chose are left out.
   - Prefetch for a forward visit runs ahead of the router and fetches all experts. But if the
     tokens of a micro-batch have fewer choices than the layer has experts, prefetch leaves all of
     them out, and hil_store_route fetches those that were chosen.
   A use that finds a place without its bytes fetches them. So no more bytes are moved than planned.
   Several ranks gather all experts: a gather needs every rank, and no rank has to wait until it
   knows what the others chose. A GPU alone knows its routings: there all are fetched too. */
/* Tokens of each micro-batch of the passes that follow. */
void hil_store_set_tokens(hil_store *store, int64_t tokens);
/* The router has run in this visit: expert e of the routing has rows [begin[e], begin[e + 1]), or
   any number if `begin` is NULL. Has no effect in backward, which has the routing of forward. */
hil_status hil_store_route(hil_store *store, int routing, const int32_t *begin);
/* The next use of the tile reads it, whatever hil_store_route said: routings are numbered as in the
   trace, and on another path the same number may be another mixture's, or the expert's weight may
   be used without one. */
void hil_store_need(hil_store *store, hil_param *param, int64_t tile);
/* Bytes since the last call that the plan moves and the store did not, because experts were idle.
 */
uint64_t hil_store_take_skipped(hil_store *store);
/* [Note: renewal] Every few micro-batches, between two groups, the window is emptied as at the
   beginning of a step, and prefetch does not cross that point. If a sum was spilled in this step,
   all sums are spilled, each always to the same address; also those that came back, because their
   addresses in the window would differ each time. So all periods between two renewals,
   except the first and the last, transfer the same bytes between the same addresses, and a
   rehearsal of three periods predicts any number of them exactly. Without renewals, the window's
   contents after one group would decide what the next one fetches, and might never repeat. The
   cost: the first segments' weights are fetched once more per period. */
hil_status hil_store_pass_renew(hil_store *store);
/* Prefetches again after a renewal. `again`: the pass repeats what it did since the renewal before;
   in a rehearsal. */
hil_status hil_store_pass_resume(hil_store *store, bool again);
/* A training pass at a renewal. */
typedef struct hil_pass_state {
    uint64_t digest;              /* of the addresses of all sums, in the window and spilled */
    size_t uses, marks, renewals; /* so far */
} hil_pass_state;
void hil_store_pass_state(const hil_store *store, hil_pass_state *out);
/* Inserts `times` more copies of what is between two states into the known order of training. */
hil_status hil_store_pass_repeat(hil_store *store, const hil_pass_state state[2], int64_t times);
/* Makes a new order of training of visits of the known one: see hil_order_compose. *last: after the
   last renewal, without a digest; zeros if there is none. */
hil_status hil_store_pass_compose(hil_store *store, const int32_t *visit, size_t visits,
                                  hil_pass_state *last);
/* The next training passes begin at that state, until the order is restored. */
hil_status hil_store_pass_cut(hil_store *store, const hil_pass_state *state);
hil_status hil_store_pass_restore(hil_store *store);
/* Repairs of the order so far, over all kinds of passes. */
int64_t hil_store_repairs(const hil_store *store);
/* Prefetch misses so far: weights and sums that were fetched only when they were needed. */
int64_t hil_store_misses(const hil_store *store);
/* Abandons the pass after a failure: nothing stays pinned. */
void hil_store_pass_drop(hil_store *store);

/* Around each use of a weight, one tile of rows at a time. *data is borrowed until release, by what
   is queued on a device's compute stream until then; NULL: an idle expert's. Computing stalls until
   the weight's fetch and its last update are over. */
hil_status hil_store_acquire(hil_store *store, hil_param *param, int64_t tile, const void **data);
void hil_store_release(hil_store *store, hil_param *param, int64_t tile);
/* Bytes of tiles of equal size that may be acquired at once: so small a part of the window that
   there is room for one more, wherever they are. */
size_t hil_store_hold(const hil_store *store);

/* The fp32 sum of one tile's gradient for the use in `segment`, borrowed until release. *add says
   whether to add to it; false at the first call of a step, when its contents are undefined and all
   of it must be written. If `add` is NULL, the store zeroes it at the first call. */
hil_status hil_store_sum_acquire(hil_store *store, hil_param *param, int segment, int64_t tile,
                                 float **sum, bool *add);
void hil_store_sum_release(hil_store *store, hil_param *param, int segment, int64_t tile);
/* Adds zeros: the gradient of an expert that has no tokens. Nothing is computed or moved for it; if
   the step adds nothing else, the update takes zeros for the gradient. *done: false if the store
   cannot do that here, and a sum must be acquired. */
hil_status hil_store_sum_idle(hil_store *store, hil_param *param, int segment, int64_t tile,
                              bool *done);
/* Adds a gradient of a whole tile to that sum, in the order of the compute stream, which has read
   it then; the first one of a step becomes the sum. */
hil_status hil_store_sum_add(hil_store *store, hil_param *param, int segment, int64_t tile,
                             const void *gradient, hil_dtype dtype);
/* To be called when the sums of all uses in `segment` are complete: rounds each once to the
   parameter's dtype and starts its copy-out to its home. A parameter that no rank added to in this
   step has no gradient. */
hil_status hil_store_give_gradients(hil_store *store, int segment);
/* [Note: by tile] With plan.by_tile the gradient of a tile is given, and reduced over the ranks, as
   soon as it is complete, while the backward of its segment goes on. So the device holds the sums
   of the tiles in use, not those of a segment. A sum is complete when the step's last micro-batch
   has added to it; with several micro-batches all sums of the segment would still be needed until
   then, so the plan chooses this only for one micro-batch in a step on each rank. What is added and
   rounded, and in which order, stays the same, so the bits do; and so do the bytes that ranks
   exchange.
   To be called after the release, when nothing adds to this use of the tile any more in this step.
   Does nothing unless the plan says so; tiles that share a unit with others wait for
   hil_store_give_gradients. */
hil_status hil_store_sum_complete(hil_store *store, hil_param *param, int segment, int64_t tile);

#endif
