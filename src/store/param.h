/* param.h - inside of the store: parameters, the units they are cut into, and where those are. */
#ifndef HIL_STORE_PARAM_H
#define HIL_STORE_PARAM_H

#include "store/order.h"
#include "store/store.h"
#include "tier/offload.h"

/* Tiles are whole groups of rows, so that a matrix product cut at tile edges has the same sums. */
#define HIL_TILE_MULTIPLE 64
/* Elements: every member of a unit starts at a multiple, so groups of 8-bit moments never mix. */
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
    size_t unit; /* of tile 0; tiles follow one another */
    int member;  /* its place in that unit */
};

/* Elements [first, first + count) of a parameter, at `offset` of the unit. */
typedef struct hil_member {
    hil_param *param;
    int64_t offset, first, count;
    unsigned summed;   /* bit per use: it got a sum in this step */
    unsigned sweeping; /* the same of the step whose sweep runs */
} hil_member;

/* Where one state of one unit lives. */
typedef struct hil_home {
    bool exists;
    hil_tier tier;
    size_t bytes;
    char *memory;      /* device, host */
    hil_extent extent; /* disk: one page per chunk */
} hil_home;

/* See [Note: uses] in store.h. */
typedef struct hil_use {
    int segment;
    hil_movable sum; /* fp32, in the window or where it was spilled */
    int pins;
    bool held;    /* by the visit that runs */
    bool visited; /* by one that may add to it, in this step */
    bool summing; /* the sum holds something of this step */
    bool given;   /* the gradient is at home, or on its way */
    hil_home home;
    hil_fence left; /* over: the gradient is at home */
} hil_use;

typedef struct hil_unit {
    hil_dtype dtype;
    bool trainable;
    int64_t elements; /* padded: ranks * slice */
    int64_t slice;    /* elements of every home, from `rank * slice` of the unit on */
    int members, room;
    hil_member *member;
    hil_home home[HIL_GRADIENT]; /* by hil_unit_state */
    char *copy;                  /* the weight in the window; NULL: not there */
    int pins;
    bool held;         /* by the visit that runs */
    hil_fence ready;   /* over: the copy may be read */
    hil_fence reading; /* over: nobody reads the weight at home any more */
    hil_fence swept;   /* over: the last update is at home */
    int uses;
    hil_use use[HIL_USES];
    unsigned sweeping; /* bit per use: given in the step whose sweep runs */
    double *square;    /* of the gradient, per block; of store->squares */
} hil_unit;

/* What a segment may use. */
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

/* What the order of uses and the window number: the weight of a unit, or the sum of one use. */
#define HIL_ENTITIES (1 + HIL_USES)

struct hil_store {
    hil_store_options options;
    bool arranged, open;
    hil_param **params;
    size_t count, capacity;
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
    hil_device *device; /* that computes; NULL: the CPU, or nobody in a rehearsal */
    bool apart;         /* the CPU cannot reach the device's memory: see hil_plan */
    hil_buffers *window;
    hil_outgoing outgoing[HIL_OUTGOING]; /* the oldest first */
    int outgoings;
    hil_ring *ring;
    hil_offload *spilled;
    size_t resident[HIL_TIERS]; /* bytes of homes and slots */
    int32_t *here;              /* entities in the window */
    size_t here_count, here_room;
    hil_order order[HIL_PASSES];
    hil_order *pass;      /* NULL between passes */
    hil_stop stop;        /* where the pass is; HIL_NOWHERE between visits */
    int64_t misses;       /* see hil_store_misses */
    double *lanes;        /* HIL_SQUARES per block of the unit whose gradient is given */
    double *device_lanes; /* the same on the device */
    double *squares;      /* of all units */
    struct hil_sweep *sweep;
    struct hil_reduce *reduce;     /* with several ranks */
    struct hil_exchange *exchange; /* with several ranks, apart and not wired */
    hil_fence turn; /* the last gather or exchange by wire: [Note: turns] in wire.h */
    struct hil_save *save;
};

static inline bool hil_store_alone(const hil_store *store)
{
    return store->options.ranks == 1;
}

/* The unit's element with which this rank's slice begins. */
static inline int64_t hil_unit_begin(const hil_store *store, const hil_unit *unit)
{
    return store->options.rank * unit->slice;
}

/* Elements of a chunk of the slice: all chunks but the last are whole. */
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

/* Pages on disk of so many elements, from the start of a chunk on. */
static inline int64_t hil_pages_of(const hil_store *store, int64_t count)
{
    return (count + store->plan->chunk - 1) / store->plan->chunk;
}

/* unit.c */
hil_status hil_units_arrange(hil_store *store);
void hil_units_free(hil_store *store);
int64_t hil_unit_blocks(const hil_unit *unit);
static inline int64_t hil_member_blocks(const hil_member *member)
{
    return (member->count + HIL_BLOCK - 1) / HIL_BLOCK;
}

/* The part of a member inside elements [first, last) of the unit; false: none. */
static inline bool hil_member_overlap(const hil_member *member, int64_t first, int64_t last,
                                      int64_t *from, int64_t *to)
{
    *from = member->offset > first ? member->offset : first;
    *to = member->offset + member->count < last ? member->offset + member->count : last;
    return *from < *to;
}

/* home.c: whether all states live on the device. */
bool hil_unit_on_device(const hil_unit *unit);
/* Whether they visit it to be updated: [Note: guest updates] in plan.h. */
bool hil_unit_visits(const hil_store *store, const hil_unit *unit);
/* A use that nobody declared before the store was opened: the slots have no room for its gradient,
   so it lives where it needs none. */
hil_status hil_home_open_late(hil_store *store, const hil_unit *unit, hil_home *gradient);
/* Bytes of `count` elements of a state. */
size_t hil_chunk_bytes(const hil_store *store, const hil_unit *unit, hil_unit_state state,
                       int64_t count);
hil_status hil_homes_open(hil_store *store);
void hil_homes_close(hil_store *store);

/* segment.c: the segment may use the unit; the visit is over; everything is, after a failure. */
hil_status hil_segment_declare(hil_store *store, int segment, size_t unit);
void hil_segments_free(hil_store *store);
hil_status hil_segment_exit(hil_store *store);
/* [Note: same order] With several ranks, what the visit does not hold must be used in the known
   order of a training pass, which is everybody's: anything else is an error. */
hil_status hil_segment_admit(const hil_store *store, const hil_param *param, int32_t entity);
void hil_segment_drop(hil_store *store);

/* fetch.c: brings a weight into a copy of its own; room is there. Whether it needs none: alone, a
   weight that lives on the device. */
hil_status hil_weight_fetch(hil_store *store, hil_unit *unit);
bool hil_weight_resident(const hil_store *store, const hil_unit *unit);
/* Bytes of the whole weight. */
size_t hil_weight_bytes(const hil_unit *unit);

/* window.c: the weight or sum is on the device, or on its way, and pinned. */
hil_status hil_window_room(hil_store *store, size_t bytes);
hil_status hil_window_bring(hil_store *store, int32_t entity);
hil_status hil_window_use(hil_store *store, int32_t entity);
/* Whether it is there, or needs no window; everything that is not pinned leaves. */
bool hil_window_has(const hil_store *store, int32_t entity);
hil_status hil_window_clear(hil_store *store);
void hil_window_remove(hil_store *store, int32_t entity);
hil_status hil_window_prefetch(hil_store *store);
void hil_window_forget(hil_store *store, hil_unit *unit);
/* Weights leave; and the sums, if they do not all fit. */
hil_status hil_window_renew(hil_store *store);
/* See [Note: copy-out buffers]; and all of it goes back. */
hil_status hil_window_take_outgoing(hil_store *store, size_t bytes, void **out);
void hil_window_give_outgoing(hil_store *store, void *memory, size_t bytes, const hil_fence *after);
void hil_window_reclaim(hil_store *store);

/* stage.c */
hil_status hil_sweep_open(hil_store *store);
void hil_sweep_close(hil_store *store);
/* [Note: stage] States of a chunk on their way between the CPU and a device that it does not reach:
   a slot of the sweep, pinned, that nobody uses any more; until what is queued on the compute
   stream before hil_stage_end is over. */
typedef struct hil_stage {
    char *memory;
    hil_event *used;
} hil_stage;
hil_status hil_stage_begin(hil_store *store, hil_stage *stage);
hil_status hil_stage_end(hil_store *store, const hil_stage *stage);

/* A chunk that is saved: elements [base, base + count) of the unit, and where each of its states
   is until that is over. */
typedef struct hil_saved_chunk {
    const hil_unit *unit;
    int64_t base, count;
    const char *state[HIL_GRADIENT]; /* NULL: it has none */
} hil_saved_chunk;

/* save.c: a save begins when the last one is over; the chunk (copied) is saved after `after`. */
hil_status hil_save_open(hil_store *store);
void hil_save_close(hil_store *store);
hil_status hil_save_begin(hil_store *store, const hil_saving *saving);
hil_status hil_save_chunk(hil_store *store, const hil_saved_chunk *chunk, const hil_fence *after,
                          hil_fence *over);

/* state_access.c: fp32 masters of weights and what they lack; `rest` is NULL where nothing is kept.
 */
void hil_master_join(float *out, hil_dtype dtype, const void *weight, const void *rest,
                     int64_t count);

/* worker.c: who does arithmetic, and where. */
typedef struct hil_worker {
    hil_device *device; /* NULL: the CPU, at once */
    hil_stream stream;
    hil_pool *pool; /* of the CPU; NULL: this thread */
} hil_worker;
/* Whoever computes, between uses. */
hil_worker hil_worker_compute(const hil_store *store);
hil_status hil_work_zero(const hil_worker *w, float *out, int64_t count);
hil_status hil_work_round(const hil_worker *w, hil_rounding *rounding);
/* The squares of a unit, one unit at a time: begun; those of elements [first, ...) of a member;
   all. Rounding does all of that at once, and has the lanes for blocks that come in parts. */
double *hil_squares_lanes(const hil_store *store, const hil_worker *w);
hil_status hil_squares_begin(hil_store *store, const hil_worker *w, const hil_unit *unit);
hil_status hil_squares_add(const hil_store *store, const hil_worker *w, const hil_unit *unit,
                           int member, const hil_block *block, int64_t first);
hil_status hil_squares_end(hil_store *store, const hil_worker *w, hil_unit *unit);
hil_status hil_work_open(hil_store *store);
void hil_work_close(hil_store *store);

/* rank_exchange.c: what hil_comm does, with memory of the device tier: on the link's thread, or
   queued on its stream by a job that hil_exchange_submit has submitted. */
hil_status hil_exchange_submit(hil_store *store, hil_job *job, hil_fence *fence);
hil_status hil_exchange_gather(const hil_store *store, const char *slice, char *whole,
                               size_t bytes);
hil_status hil_exchange_all_to_all(const hil_store *store, const char *out, char *in, size_t bytes);
/* Waits for what the reduction queued on its stream, unless its end is the job's; also when that
   failed, by `status`, which is then returned. */
hil_status hil_exchange_wait(const hil_store *store, hil_status status);
hil_status hil_exchange_open(hil_store *store);
void hil_exchange_close(hil_store *store);

/* gradient.c: what nobody wrote of a sum becomes zero: members that got none in this step, and
   what is behind a member. */
hil_status hil_sum_fill(hil_store *store, hil_unit *unit, int use);
/* The sum of a use is no longer needed. */
void hil_sum_drop(hil_store *store, hil_unit *unit, int use);
/* A chunk of the slice of a rounded gradient that leaves the device for its home. */
typedef struct hil_gradient_chunk {
    const hil_unit *unit;
    hil_use *use;
    const void *data;
    hil_fence made;   /* over: it is there */
    hil_fence before; /* over: there is room at home */
} hil_gradient_chunk;
hil_status hil_gradient_send(hil_store *store, const hil_gradient_chunk *leaving, int64_t chunk);

/* reduce.c: gradients of several ranks. Gives one use's sum; all ranks give the same uses. */
hil_status hil_reduce_open(hil_store *store);
void hil_reduce_close(hil_store *store);
hil_status hil_reduce_give(hil_store *store, hil_unit *unit, int use);
/* Everything given in this step is summed, and all ranks know which gradients there are. */
hil_status hil_reduce_agree(hil_store *store);
void hil_reduce_step_end(hil_store *store);

static inline int32_t hil_entity(const hil_store *store, const hil_unit *unit, int use)
{
    return (int32_t)((unit - store->unit) * HIL_ENTITIES + 1 + use);
}
#define HIL_OF_WEIGHT (-1)

static inline hil_unit *hil_unit_of(const hil_store *store, const hil_param *param, int64_t tile)
{
    return &store->unit[param->unit + (size_t)tile];
}

#endif
