/* store.h - the store owns every parameter and its states: registration, cutting into units,
   opening with a plan. */
#ifndef HIL_STORE_STORE_H
#define HIL_STORE_STORE_H

#include "base/pool.h"
#include "comm/comm.h"
#include "comm/device_comm.h"
#include "ops/op.h"
#include "store/param.h"
#include "tier/ring.h"

/* Options that decide the numbers. The plan does not change them. */
typedef struct hil_store_options {
    hil_dtype compute;
    bool training;        /* with optimizer state and gradients */
    size_t tile_size;     /* bytes of compute weights; larger matrices are cut by rows */
    int moments;          /* 0 to HIL_MOMENTS per trainable element */
    hil_codec codec;      /* of the moments */
    bool in_parts;        /* the update knows HIL_SCOPE_WEIGHTS and HIL_SCOPE_MOMENTS */
    const hil_op *matrix; /* what the update makes of each whole matrix of the blocks; NULL: none */
    hil_quant base;       /* how matrices of the blocks that are not trained are kept */
    bool fp8;             /* products of the blocks are in 8 bits: hil_param_fp8 */
    int rank, ranks;      /* see [Note: slices]; 0 ranks are 1 */
} hil_store_options;

/* [Note: slices] Every unit is padded so that it divides into as many equal slices as there are
   ranks. Rank r owns slice r of every unit, the elements from hil_unit_begin on: it keeps and
   updates their states. Before a use, an all-gather makes one copy of the whole weight. Each rank
   sums the whole gradient over its micro-batches and rounds it; then a reduce-scatter adds the
   ranks' gradients, in the order of ranks, each slice on the rank that owns it. Which of these
   there are, and in which order, depends on the order of uses only, so it is the same on all ranks.
   Per step a rank receives (ranks - 1) slices of a weight for every gather, and of a gradient for
   every use. With one rank there is neither. */

hil_status hil_store_create(hil_store **out);
void hil_store_destroy(hil_store *store);
/* Ends the registration and cuts parameters into units. Matrices are kept in the compute dtype or
   quantized, vectors (norms, biases) always in fp32. Matrices of the blocks are those with a number
   in their name: model.layers.0.mlp.up_proj.weight. Fails if a quantized parameter would be
   trained. */
hil_status hil_store_arrange(hil_store *store, const hil_store_options *options);

/* Opening takes the memory and disk pages of every state, as the plan says. A store can be opened
   for a rehearsal, closed, and opened again; it keeps the order of uses. */
typedef struct hil_store_opening {
    hil_tiers *tiers;             /* borrowed until close, like all of these */
    const hil_plan *plan;         /* its units are those of hil_store_units */
    hil_pool *pool;               /* rounds and zeroes on the caller's thread; dry in a rehearsal */
    hil_pool *update;             /* updates on the UPDATE link's thread, at the same time */
    const hil_speeds *speeds;     /* in a rehearsal only */
    hil_comm *comm;               /* NULL: one rank, or a rehearsal */
    hil_device_comm *device_comm; /* if plan->connected, except in a rehearsal */
} hil_store_opening;
/* Copies the opening, and borrows what it points to until close. */
hil_status hil_store_open(hil_store *store, const hil_store_opening *opening);
void hil_store_close(hil_store *store);
/* Forgets the order of uses that earlier passes recorded. */
void hil_store_forget(hil_store *store);
/* Moves what is not on the device of a unit there, between passes and after the sweep; of one rank.
   hil_store_promotion: the bytes that it takes of the device; 0: it cannot be moved, or is there.
 */
size_t hil_store_promotion(const hil_store *store, size_t unit);
hil_status hil_store_promote(hil_store *store, size_t unit);
/* The staging ring between disk and device, which the engine's tensors use too; the store owns it.
 */
hil_ring *hil_store_ring(const hil_store *store);
/* The high-water mark of bytes on each tier since the store was opened. */
void hil_store_peaks(const hil_store *store, uint64_t peak[HIL_TIERS]);
size_t hil_store_window_peak(const hil_store *store);
/* Host bytes that spilled sums have needed: what plan.spilled must be for the same passes. */
size_t hil_store_spill_extent(const hil_store *store);

/* Initialises every weight, or those of one parameter, as the spec says. A value depends on seed,
   parameter and element only. */
hil_status hil_store_initialise(hil_store *store, uint64_t seed);
hil_status hil_param_initialise(hil_param *param, uint64_t seed);

#endif
