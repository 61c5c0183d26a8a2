/* internal.h - the store's own structures: parameters, the units they are cut into, their homes. */
#ifndef HIL_STORE_INTERNAL_H
#define HIL_STORE_INTERNAL_H

#include "kernels/kernels.h"
#include "store/order.h"
#include "store/pass.h"
#include "store/state.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"
#include "tier/offload.h"

/* Rows: tiles are multiples of this, so that cutting a matrix product at tile edges does not change
   its sums. */
#define HIL_TILE_MULTIPLE 64
/* Elements: every member of a unit starts at a multiple of this, so that a group of 8-bit moments
   belongs to one member. */
#define HIL_PAD 256
static inline int64_t hil_pad(int64_t count)
{
    return (count + HIL_PAD - 1) / HIL_PAD * HIL_PAD;
}

struct hil_param {
    hil_store *store;
    hil_param_spec spec;
    char *name;
    int index;
    int64_t elements;
    int64_t tile_rows;
    hil_dtype dtype;
    bool trainable;
    bool matrix; /* see hil_param_is_matrix */
    bool fp8;    /* see hil_param_fp8 */
    int numbers; /* see hil_param_set_numbers */
    hil_quant quant;
    int64_t writes; /* of its bytes, if it is quantized */
    /* Numbers that the units keep, from one tile to the next, and in all: elements of the
       parameter, or bytes of a quantized one. */
    int64_t stride, kept;
    size_t unit; /* of tile 0; those of the other tiles follow */
    int member;  /* index in that unit */
};

/* Elements [first, first + count) of a parameter, at `offset` of the unit. */
typedef struct hil_member {
    hil_param *param;
    int64_t offset, first, count;
    unsigned summed;   /* bit per use: a gradient was added to its sum in this step */
    unsigned sweeping; /* the same, for the step whose sweep is running */
    int numbers;       /* of the parameter, for that step */
} hil_member;

/* Where one state of one unit is kept. */
typedef struct hil_home {
    bool exists;
    hil_tier tier;
    size_t bytes;
    char *memory;      /* device, host */
    bool sum;          /* of a gradient: `memory` is its fp32 sum, see [Note: kept sums] */
    hil_extent extent; /* disk: one page per chunk */
} hil_home;

/* See [Note: uses] in param.h. */
typedef struct hil_use {
    int segment;
    hil_movable sum; /* fp32, in the window or spilled */
    int pins;        /* > 0: the sum must not be evicted */
    bool held;       /* one of the pins is the current visit's */
    bool visited;    /* in this step, by a visit that may add to the sum */
    bool summing;    /* the sum has gradients of this step */
    bool idle;       /* a gradient of zeros was added in this step, for which there is no sum */
    bool none;       /* the gradient that was given is zero, and not at home */
    size_t place;    /* in the window's list that has the sum */
    bool given;      /* the gradient of this step is at home, or in flight to it */
    bool kept;       /* home.memory is a block of the window: see [Note: kept sums] */
    hil_home home;
    hil_fence left; /* over: the gradient is at home */
} hil_use;

/* Whether an expert has rows in the current group of micro-batches: see [Note: idle experts]. */
typedef enum hil_demand { HIL_DEMAND_UNKNOWN, HIL_DEMAND_NONE, HIL_DEMAND_ROWS } hil_demand;

typedef struct hil_unit {
    hil_dtype dtype;
    bool trainable;
    int64_t elements; /* padded: ranks * slice */
    int64_t slice;    /* elements that this rank keeps, from `rank * slice` of the unit on */
    int members, room;
    hil_member *member;
    hil_home home[HIL_GRADIENT]; /* by hil_unit_state */
    char *copy;                  /* the weight in the window; NULL: not in the window */
    int pins;                    /* > 0: the copy must not be evicted */
    bool held;                   /* one of the pins is the current visit's */
    bool hollow;                 /* the copy has its place in the window, but no bytes */
    size_t place;                /* in the window's list that has the copy */
    hil_fence ready;             /* over: the copy may be read; of a hollow one: written */
    hil_fence reading;           /* over: all transfers and saves that read the homes */
    hil_fence swept;             /* over: the last update is written to the homes */
    hil_fence settled;           /* likewise, late moments too, and gradients are not read again */
    hil_expert expert;
    bool routed_twice; /* by two segments or routings */
    hil_demand demand;
    int64_t routed; /* by the router in this visit, by its number among all */
    bool spent;     /* a backward visit has used the demand: the next forward begins a new group */
    int uses;
    hil_use use[HIL_USES];
    unsigned sweeping;  /* bit per use: given in the step whose sweep is running */
    bool sweeping_none; /* and that gradient is zero; of one use alone */
    double *square;     /* squares of the gradient, per block; a part of store->squares */
} hil_unit;

/* The units that a segment may use. */
typedef struct hil_declared {
    int segment;
    size_t *unit; /* ascending */
    size_t count, room;
} hil_declared;

/* [Note: copy-out buffers] Buffers of the window that gradients are still copied out of. They are
   reused oldest first, or freed when there is no other room. Reusing the newest one at once would
   stall computing until its copy-out ends. */
#define HIL_OUTGOING 8
typedef struct hil_outgoing {
    void *memory;
    size_t bytes;
    hil_fence after;
} hil_outgoing;

/* Where the last hil_store_write ended. */
typedef struct hil_written {
    hil_state state;
    int param;
    int64_t end;
} hil_written;

/* An entity is what the window holds and the order of uses lists: the weight of a unit, or the sum
   of one use of it. Entities per unit. */
#define HIL_ENTITIES (1 + HIL_USES)

typedef struct hil_entities {
    int32_t *entity;
    size_t count, room;
} hil_entities;

struct hil_store {
    hil_store_options options;
    bool arranged, open;
    bool adapted; /* some parameter belongs to an adapter */
    hil_param **params;
    size_t count, capacity;
    size_t *name, names; /* a hash table by name: 1 + index in params; 0: empty */
    hil_unit *unit;
    size_t units, units_room;
    hil_declared *declared;
    size_t segments, segments_room;

    /* While open. */
    hil_store_opening opening;
    hil_tiers *tiers;
    hil_links *links;
    const hil_plan *plan;
    int64_t merge;      /* chunks that one job moves: [Note: merged chunks] */
    hil_device *device; /* that computes; NULL: the CPU computes, or this is a rehearsal */
    bool discrete;      /* the CPU cannot access the device's memory: see hil_plan */
    hil_buffers *window;
    hil_outgoing outgoing[HIL_OUTGOING]; /* the oldest first */
    int outgoings;
    hil_ring *ring;
    hil_offload *spilled;
    size_t resident[HIL_TIERS]; /* bytes of homes and slots */
    hil_entities here;          /* in the window, but for sums with gradients of this step */
    hil_entities summing;       /* those sums */
    bool spilling;              /* one of them was spilled in this step: see [Note: renewal] */
    hil_order order[HIL_PASSES];
    hil_order *pass;         /* NULL between passes */
    hil_segment_visit visit; /* the current visit; its segment is HIL_NOWHERE between visits */
    int64_t misses;          /* see hil_store_misses */
    int64_t tokens;          /* of a micro-batch */
    int64_t visits;          /* so far */
    int64_t skipped;         /* see hil_store_take_skipped */
    double *lanes;           /* HIL_SQUARES per block of the unit whose gradient is being squared */
    double *device_lanes;    /* the same, in device memory */
    double *squares;         /* of all units */
    struct hil_sweep *sweep;
    struct hil_reduce *reduce;     /* with several ranks */
    struct hil_exchange *exchange; /* with several ranks, a discrete device and not connected */
    hil_fence turn; /* the last exchange between devices: [Note: turns] in device_comm.h */
    struct hil_save *save;
    hil_fence written; /* over: all pages of hil_store_write are on disk */
    hil_written last;
    bool rewritten; /* this rank wrote weights since the last pass began */
};

/* See hil_param_is_saved. */
static inline bool hil_unit_is_saved(const hil_store *store, const hil_unit *unit)
{
    return unit->trainable || !store->adapted;
}

/* A matrix has units of its own. */
static inline bool hil_unit_is_matrix(const hil_unit *unit)
{
    return hil_param_is_matrix(unit->member[0].param);
}

static inline bool hil_store_alone(const hil_store *store)
{
    return store->options.ranks == 1;
}

/* The first element of the unit that belongs to this rank's slice. */
static inline int64_t hil_unit_begin(const hil_store *store, const hil_unit *unit)
{
    return store->options.rank * unit->slice;
}

/* Elements of a chunk of the slice: plan->chunk, or fewer for the last one. */
static inline int64_t hil_chunk_count(const hil_store *store, const hil_unit *unit, int64_t chunk)
{
    int64_t rest = unit->slice - chunk * store->plan->chunk;
    return rest < store->plan->chunk ? rest : store->plan->chunk;
}

/* [Note: merged chunks] A run moves states, gradients and weights from disk chunk by chunk. In the
   rehearsal of a large model one job stands for several neighbouring chunks of a unit: the bytes
   are the same, the memory stays that of one chunk, and times differ by a small part of one in
   HIL_REHEARSED_CHUNKS. Loops over chunks step by store->merge, which is 1 in a run. */
#define HIL_REHEARSED_CHUNKS 2048
/* Elements of the job that begins with this chunk. */
static inline int64_t hil_merged_count(const hil_store *store, const hil_unit *unit, int64_t chunk)
{
    int64_t rest = unit->slice - chunk * store->plan->chunk;
    int64_t most = store->merge * store->plan->chunk;
    return rest < most ? rest : most;
}

/* Pages on disk that hold `count` elements, from the start of a chunk on. */
static inline int64_t hil_pages_of(const hil_store *store, int64_t count)
{
    return (count + store->plan->chunk - 1) / store->plan->chunk;
}

hil_status hil_units_arrange(hil_store *store);
void hil_units_free(hil_store *store);
int64_t hil_unit_blocks(const hil_unit *unit);
static inline int64_t hil_member_blocks(const hil_member *member)
{
    return (member->count + HIL_BLOCK - 1) / HIL_BLOCK;
}

/* Intersects a member with elements [first, last) of the unit; false: they do not overlap. */
static inline bool hil_member_overlap(const hil_member *member, int64_t first, int64_t last,
                                      int64_t *from, int64_t *to)
{
    *from = member->offset > first ? member->offset : first;
    *to = member->offset + member->count < last ? member->offset + member->count : last;
    return *from < *to;
}

static inline int32_t hil_entity(const hil_store *store, const hil_unit *unit, int use)
{
    return (int32_t)((unit - store->unit) * HIL_ENTITIES + 1 + use);
}
#define HIL_OF_WEIGHT (-1)

static inline int64_t hil_param_tiles(const hil_param *param)
{
    return param->stride ? (param->kept + param->stride - 1) / param->stride : 0;
}

static inline hil_unit *hil_unit_of(const hil_store *store, const hil_param *param, int64_t tile)
{
    return &store->unit[param->unit + (size_t)tile];
}

#endif
