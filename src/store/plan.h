/* plan.h - the plan: where each state and tensor is kept, and how large each buffer is. Pure data.
 */
#ifndef HIL_STORE_PLAN_H
#define HIL_STORE_PLAN_H

#include "io/align.h"
#include "tier/links.h"

/* States of a unit; each is kept on a tier of its own. */
typedef enum hil_unit_state {
    HIL_WEIGHT,   /* compute dtype */
    HIL_REST,     /* completes the weight to the fp32 master: bf16 2 bytes, fp16 all 4, fp32 none */
    HIL_STATE1,   /* first moment */
    HIL_STATE2,   /* second moment */
    HIL_GRADIENT, /* compute dtype, one per use */
    HIL_UNIT_STATES
} hil_unit_state;

/* [Note: device updates] A GPU can also update units whose states are kept on the host: each chunk
   is copied to the device, updated there and copied back, while the CPU updates other units in
   place. */
typedef struct hil_unit_place {
    unsigned char tier[HIL_UNIT_STATES]; /* hil_tier */
    bool device_updates;                 /* the device updates host-resident states; follows from
                                            hil_plan.device_share */
} hil_unit_place;

/* [Note: kept sums] With micro-batches one at a time a GPU holds the fp32 sums of all gradients
   until the last one. Where all states of a unit are kept on the GPU and the plan says
   `keeps_sums`, its gradient is not rounded into memory of its own: the sum stays in the window
   until the update has read it. The norm and the update round it to the compute dtype as they read
   it: one rounding, the same bits. */

/* Of each group's micro-batches, `keep` keep all that backward needs, `lean` all but what is cheap
   to recompute, and the rest only the segment's inputs: backward recomputes. They are the group's
   first ones, in this order; if their tapes are offloaded, they are spread over the group. Where
   `thin`, the `lean` ones recompute attention too. */
typedef struct hil_segment_place {
    int64_t keep, lean;
    unsigned char tier;  /* hil_tier: where the segment's outputs are kept until backward */
    unsigned char tapes; /* hil_tier: where the rest of its tape is kept until backward */
    bool thin;
} hil_segment_place;

typedef struct hil_plan {
    /* Given. */
    size_t device_budget, host_budget;
    uint64_t disk_budget;
    bool prefetch;
    bool saves;       /* checkpoints are written: needs a chunk of fp32 numbers on the host */
    bool grows;       /* hil_store_promote may be called: slots of the sweep fit whole units */
    bool unrehearsed; /* `spilled` is an upper bound: its memory is touched and pinned on use */
    bool discrete;    /* the CPU cannot access the device's memory (a GPU), so states are staged */
    bool connected;   /* ranks exchange from device to device: see hil_store_opening.device_comm */
    int ranks;        /* each keeps one slice of every state; 0 and 1: one rank */
    int zero;         /* stage of ZeRO, 1 to 3: what the window holds at least */
    /* Decided. */
    int64_t group;       /* micro-batches that a segment runs before the next one: 1 to all */
    bool keeps_sums;     /* see [Note: kept sums] */
    bool by_segment;     /* a visit pins all that its segment may use: [Note: visits] in pass.h */
    bool by_tile;        /* gradients leave one by one: [Note: by tile] in pass.h */
    size_t window;       /* device bytes for fetched weights and for sums of gradients */
    size_t work;         /* device bytes for tensors */
    size_t expanded;     /* of these, for quantized weights that stay expanded */
    size_t ring;         /* host bytes: staging between disk and device */
    size_t offloaded;    /* host bytes: offloaded tensors */
    size_t spilled;      /* host bytes: sums of gradients that were evicted from the window */
    int64_t chunk;       /* elements of a state per transfer of the sweep; multiple of 4096 */
    int slots;           /* chunks in flight in the sweep */
    double device_share; /* share of host-resident elements that the device updates */
    int device_slots;    /* chunks in flight on the device for that */
    bool late_moments;   /* see [Note: late moments] in sweep.c */
    unsigned char spill; /* hil_tier that sums are spilled to: HIL_HOST or HIL_DISK */
    size_t units;
    hil_unit_place *unit;
    size_t segments;
    hil_segment_place *segment;
    uint64_t drive_bytes[HIL_DRIVES]; /* size of each swap file */
    /* Predicted for one step. */
    uint64_t peak[HIL_TIERS];
    uint64_t disk_read, disk_written, to_device, to_host;
    uint64_t gathered, reduced; /* bytes received from other ranks: weights, gradients */
    double step_seconds, compute_seconds, update_seconds;
    double wait[HIL_WAITS];
    double busy[HIL_LINKS];
} hil_plan;

/* Host bytes of the staging buffers between the comm and a device that it cannot access: see
   rank_exchange.c. The pieces for all ranks together are about as large as a chunk, for any number
   of ranks. */
#define HIL_PIECE_LEAST 256 /* elements per rank, at least */
static inline size_t hil_exchange_pieces_bytes(int64_t chunk, int ranks)
{
    int64_t least = (int64_t)ranks * HIL_PIECE_LEAST;
    return hil_align_up((size_t)(chunk > least ? chunk : least) * sizeof(float));
}
static inline size_t hil_exchange_gather_bytes(int64_t chunk, int ranks)
{
    return hil_exchange_pieces_bytes(chunk, ranks);
}
static inline size_t hil_exchange_all_to_all_bytes(int64_t chunk, int ranks)
{
    return 2 * hil_exchange_pieces_bytes(chunk, ranks);
}

#endif
