/* store.h - owns every parameter and its states; hands them out around the moment of use. */
#ifndef HIL_STORE_STORE_H
#define HIL_STORE_STORE_H

#include "base/pool.h"
#include "comm/comm.h"
#include "comm/wire.h"
#include "kernels/kernels.h"
#include "store/plan.h"
#include "tier/ring.h"

typedef struct hil_store hil_store;
typedef struct hil_param hil_param;

typedef enum hil_init { HIL_INIT_ZERO, HIL_INIT_ONE, HIL_INIT_NORMAL } hil_init;

typedef struct hil_param_spec {
    const char *name; /* copied */
    hil_shape shape;  /* one or two dimensions */
    hil_init init;
    double std;      /* of HIL_INIT_NORMAL */
    bool no_decay;   /* weight decay leaves it alone: norms and biases */
    bool transposed; /* files hold the transpose (GPT-2's Conv1D) */
    int group;       /* vectors of one group move together */
} hil_param_spec;

#define HIL_UNIT_NAME 128

/* What fixes the numbers: the same for every placement. */
typedef struct hil_store_options {
    hil_dtype compute;
    bool training;    /* with optimizer state and gradients */
    size_t tile_size; /* bytes of compute weights; larger matrices are cut by rows */
    int moments;      /* 0 to HIL_MOMENTS per trainable element */
    hil_codec codec;  /* of the moments */
    int rank, ranks;  /* see [Note: slices]; 0 ranks are 1 */
} hil_store_options;

/* [Note: slices] Every unit is padded so that it divides into as many equal slices as there are
   ranks, and rank r keeps slice r of every state of every unit. A use gathers the weight's slices
   into one copy. Gradients are summed over micro-batches as a whole, rounded, and exchanged: each
   rank adds what all gave for its slice, in the order of ranks. Which gathers and exchanges there
   are, and in which order, follows from the order of uses alone and is the same on all ranks. Per
   step a rank receives (ranks - 1) slices of a weight for every gather and of a gradient for every
   use. With one rank nothing is gathered or exchanged. */

hil_status hil_store_create(hil_store **out);
void hil_store_destroy(hil_store *store);

hil_status hil_store_add(hil_store *store, const hil_param_spec *spec, hil_param **out);
/* Before the units are cut: this parameter only has a weight, rounded to its dtype. */
void hil_param_freeze(hil_param *param);
/* Ends the registration and cuts parameters into units. Matrices are kept in the compute dtype,
   vectors (norms, biases) always in fp32. */
hil_status hil_store_arrange(hil_store *store, const hil_store_options *options);

/* Opening gives every state of every unit its home, by the plan. A store can be opened for a
   rehearsal, closed, and opened again; it remembers the order of uses. */
typedef struct hil_store_opening {
    hil_tiers *tiers;         /* borrowed until close, like the rest */
    const hil_plan *plan;     /* its units are those of hil_store_units */
    hil_pool *pool;           /* for work between uses; dry in a rehearsal */
    hil_pool *update;         /* for the sweep, which runs beside it */
    const hil_speeds *speeds; /* of a rehearsal */
    hil_comm *comm;           /* NULL: alone, or a rehearsal of one of several ranks */
    hil_wire *wire;           /* where the plan is wired, unless it is rehearsed */
} hil_store_opening;
hil_status hil_store_open(hil_store *store, const hil_store_opening *opening);
void hil_store_close(hil_store *store);
/* Forgets the order of uses that earlier passes left. */
void hil_store_forget(hil_store *store);
/* Staging between disk and device, for whoever else moves tensors. */
hil_ring *hil_store_ring(const hil_store *store);
/* The most bytes held on each tier since it was opened. */
void hil_store_peaks(const hil_store *store, uint64_t peak[HIL_TIERS]);
/* What spilled sums need on the host to do again what they did. */
size_t hil_store_spill_extent(const hil_store *store);

/* Units, for the planner. Bytes of this rank's slice of a state; of HIL_GRADIENT for one use. */
int hil_store_ranks(const hil_store *store);
size_t hil_store_units(const hil_store *store);
size_t hil_unit_bytes(const hil_store *store, size_t unit, hil_unit_state state);
/* Elements of the whole, padded, and of a slice of it. */
int64_t hil_unit_elements(const hil_store *store, size_t unit);
int64_t hil_unit_slice(const hil_store *store, size_t unit);
int hil_unit_uses(const hil_store *store, size_t unit);
/* Bytes of the device for sums of squares, where it is apart (see hil_plan). */
size_t hil_store_lanes(const hil_store *store);
/* How many units a segment may use; *units are their numbers, ascending. */
size_t hil_store_declared(const hil_store *store, int segment, const size_t **units);
/* "name", "name[tile]" or "name..last" into `out`. */
const char *hil_unit_name(const hil_store *store, size_t unit, char out[HIL_UNIT_NAME]);

/* Fills every weight from its spec: a function of (seed, parameter, element) alone. */
hil_status hil_store_initialise(hil_store *store, uint64_t seed);

size_t hil_store_count(const hil_store *store);
hil_param *hil_store_at(const hil_store *store, size_t i);
hil_param *hil_store_find(const hil_store *store, const char *name);
const hil_param_spec *hil_param_spec_of(const hil_param *param);
int64_t hil_param_elements(const hil_param *param);
hil_dtype hil_param_dtype(const hil_param *param);
int64_t hil_param_tile_rows(const hil_param *param);
bool hil_param_trainable(const hil_param *param);

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

/* [Note: uses] A parameter used in two segments (tied embeddings) has one gradient per segment that
   uses it: each is summed on its own over the micro-batches, given once, and the update adds them
   in the order of the segments. So no order of execution changes the sum. A frozen parameter has
   none and may be declared for any number of segments. */
hil_status hil_store_declare_use(hil_store *store, hil_param *param, int segment);

/* The fp32 sum of one tile's gradient for the use in `segment`, to be added to. At the first call
   of a step `add` is false: the sum holds anything, and all of it must be written. With NULL for
   `add` it is zeroed then. */
hil_status hil_store_sum_acquire(hil_store *store, hil_param *param, int segment, int64_t tile,
                                 float **sum, bool *add);
void hil_store_sum_release(hil_store *store, hil_param *param, int segment, int64_t tile);
/* The sums of all uses in `segment` are complete: each is rounded once to the parameter's dtype and
   leaves for its home. A parameter that got no sum in this step, on any rank, has no gradient. */
hil_status hil_store_give_gradients(hil_store *store, int segment);

/* States as fp32 numbers, for files: of elements [first, first + count) in the parameter's own
   order those that this rank holds; the others are left alone. After passes every rank writes the
   same parameters, so that all have the same weights in their windows. */
typedef enum hil_state { HIL_MASTER, HIL_MOMENT1, HIL_MOMENT2, HIL_STATES } hil_state;
/* Frozen parameters have no moments, and a rule may need fewer than HIL_MOMENTS. */
bool hil_param_has(const hil_param *param, hil_state state);
hil_status hil_store_read(hil_store *store, hil_param *param, hil_state state, int64_t first,
                          int64_t count, float *out);
hil_status hil_store_write(hil_store *store, hil_param *param, hil_state state, int64_t first,
                           int64_t count, const float *in);
/* All of a state, on every rank: all ranks meet here. */
hil_status hil_store_read_whole(hil_store *store, hil_param *param, hil_state state, float *out);
/* [Note: ranges] Whoever reads or writes a whole state does so in order, one range at a time:
   states may lie on disk in pages, and a range is what is left of the page (or of the tile, or of
   this rank's slice of it) in which its first element lies. Moves *first to the first element at or
   behind it that this rank holds; gives how many the range that starts there has, 0 at the
   parameter's end. */
int64_t hil_param_held(const hil_param *param, int64_t *first);
/* At least as many as any range of any parameter has, for buffers. */
int64_t hil_store_range(const hil_store *store);

/* The norm of all gradients given in this step, of all ranks, which meet here: before the update.
 */
hil_status hil_store_norm(hil_store *store, double *norm);
/* Where states go when they are saved: `put` gets every element of every state that there is once,
   in ranges, on the SAVE link's thread, one call at a time. A failure is everybody's, like that of
   any transfer. */
typedef struct hil_saving {
    hil_status (*put)(void *context, hil_param *param, hil_state state, int64_t first,
                      int64_t count, const float *data);
    void *context;
} hil_saving;

/* Starts the sweep: every unit with a gradient, in the order of the next forward, is read, updated
   by update(rule, block) and written, beside what follows; acquire waits for the unit it needs.
   `update` runs on the threads of the update pool, several blocks at a time. `rule` is copied, and
   so is `saving` (NULL: none), which gets the states as this update leaves them. Only the next
   sweep changes them again, and waits for that. */
typedef void hil_update_fn(const void *rule, const hil_block *block);
#define HIL_RULE_BYTES 128
hil_status hil_store_update(hil_store *store, hil_update_fn *update, const void *rule,
                            size_t rule_bytes, const hil_saving *saving);
/* The same without an update: saves the states as the last one leaves them. */
hil_status hil_store_save(hil_store *store, const hil_saving *saving);
/* After all that the last sweep saves has been put, `run` is called on the same thread. */
hil_status hil_store_save_finish(hil_store *store, hil_status (*run)(void *context), void *context);
/* Waits for what was saved, and for its finish. A sweep that saves does so, too. */
hil_status hil_store_saved(hil_store *store);
/* Gradients that were given and not used are forgotten. */
void hil_store_step_end(hil_store *store);
/* Waits for the sweep. */
hil_status hil_store_sweep_wait(hil_store *store);

#endif
