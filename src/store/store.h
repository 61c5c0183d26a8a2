/* store.h - owns every parameter and its states: from registration to opening by a plan. */
#ifndef HIL_STORE_STORE_H
#define HIL_STORE_STORE_H

#include "base/pool.h"
#include "comm/comm.h"
#include "comm/wire.h"
#include "store/param.h"
#include "tier/ring.h"

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

/* Fills every weight from its spec: a function of (seed, parameter, element) alone. */
hil_status hil_store_initialise(hil_store *store, uint64_t seed);

#endif
