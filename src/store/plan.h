/* plan.h - where everything lives and in which order it moves: pure data. */
#ifndef HIL_STORE_PLAN_H
#define HIL_STORE_PLAN_H

#include "io/align.h"
#include "tier/links.h"

/* States of a unit that have a home of their own. */
typedef enum hil_unit_state {
    HIL_WEIGHT, /* compute dtype */
    HIL_REST,   /* what the weight lacks of the fp32 master: bf16 2 bytes, fp16 all 4, fp32 none */
    HIL_STATE1, /* first moment */
    HIL_STATE2, /* second moment */
    HIL_GRADIENT, /* compute dtype, one per use */
    HIL_UNIT_STATES
} hil_unit_state;

/* [Note: guest updates] A device that is apart can also update what lives on the host: its states
   visit the device chunk by chunk, while the CPU updates other units where they are. */
typedef struct hil_unit_place {
    unsigned char tier[HIL_UNIT_STATES]; /* hil_tier */
    bool visits;                         /* follows from hil_plan.visiting */
} hil_unit_place;

/* The first `keep` micro-batches of a group keep all that backward needs, the next `lean` all but
   what is cheap to make again; the rest keep only the segment's inputs and compute again. Where
   what they keep waits elsewhere, these micro-batches are spread over the group. */
typedef struct hil_segment_place {
    int64_t keep, lean;
    unsigned char tier;  /* hil_tier: where the values that leave the segment wait */
    unsigned char tapes; /* hil_tier: where all else waits that is kept */
} hil_segment_place;

typedef struct hil_plan {
    /* Given. */
    size_t device_budget, host_budget;
    uint64_t disk_budget;
    bool prefetch;
    bool saves; /* with a sweep that saves: a chunk of fp32 numbers on the host */
    bool apart; /* the CPU cannot reach the device's memory: the sweep stages what lives there */
    bool wired; /* what ranks exchange goes from device to device: see hil_store_opening.wire */
    int ranks;  /* that divide every state among themselves; 0 and 1: alone */
    int zero;   /* stage of ZeRO, 1 to 3: what the window holds at least */
    /* Decided. */
    int64_t group;       /* micro-batches that pass a segment together: 1, or all of a step */
    bool by_segment;     /* a visit holds all that its segment may use: [Note: visits] in pass.h */
    size_t window;       /* device bytes for weights and sums that come and go */
    size_t work;         /* device bytes for tensors */
    size_t ring;         /* host bytes: staging between disk and device */
    size_t parked;       /* host bytes: offloaded tensors */
    size_t spilled;      /* host bytes: sums of gradients that left the window */
    int64_t chunk;       /* elements of a state that the sweep moves at once; multiple of 4096 */
    int slots;           /* chunks in flight in the sweep */
    double visiting;     /* part of the elements on the host that visit the device; see above */
    int guests;          /* chunks on the device that do so at once */
    unsigned char spill; /* hil_tier of sums that leave the device: HIL_HOST or HIL_DISK */
    size_t units;
    hil_unit_place *unit;
    size_t segments;
    hil_segment_place *segment;
    uint64_t drive_bytes[HIL_DRIVES]; /* size of each swap file */
    /* Predicted for one step. */
    uint64_t peak[HIL_TIERS];
    uint64_t disk_read, disk_written, to_device, to_host;
    uint64_t gathered, reduced; /* received from other ranks: slices of weights, of gradients */
    double step_seconds, compute_seconds, update_seconds;
    double wait[HIL_WAITS];
    double busy[HIL_LINKS];
} hil_plan;

/* Host bytes through which ranks exchange what lives on a device that is apart: see
   rank_exchange.c. Pieces for all ranks together are about as large as a chunk, however many ranks
   there are. */
#define HIL_PIECE_LEAST 256 /* elements that go to one rank at least */
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
