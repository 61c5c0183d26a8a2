/* sweep.h - structures of the sweep: chunks of states, and the slots in which they are staged. */
#ifndef HIL_STORE_SWEEP_H
#define HIL_STORE_SWEEP_H

#include "store/internal.h"

#define HIL_SWEEP_TASK 16384 /* elements of one task of the pool */

/* A staging buffer for the states of one chunk. */
typedef struct hil_slot {
    char *memory;
    hil_fence free;  /* over: it may be reused */
    hil_event *used; /* the end of the last hil_stage */
} hil_slot;

/* Elements [first, first + count) of this rank's slice, updated or saved together. */
typedef struct hil_sweep_chunk {
    hil_unit *unit;
    int64_t first, count;
    bool copy;       /* the states stay on the device; a copy of them is saved */
    bool here;       /* the device updates them */
    bool from_host;  /* and they are kept on the host: [Note: device updates] in plan.h */
    bool late;       /* [Note: late moments] in sweep.c */
    size_t together; /* chunks from this one on that one job updates: [Note: joint updates] */
    hil_slot *slot;
} hil_sweep_chunk;

/* Slots that are used round-robin. */
typedef struct hil_slot_ring {
    hil_slot *slot;
    int slots, next;
} hil_slot_ring;

struct hil_sweep {
    hil_slot_ring host, device; /* device: for device updates */
    size_t host_slot_bytes;     /* bytes of a slot on the host */
    size_t device_slot_bytes;   /* the same, on the device */
    hil_sweep_chunk *chunk;
    size_t chunks;
    hil_unit **order;
    bool *listed;
    hil_update_fn *update;
    char *rule;
    size_t rule_room;
    hil_fence marked; /* the computing that all jobs of this sweep wait for */
    bool saving;      /* this sweep also saves */
    bool late;        /* this sweep updates what it may in two parts: [Note: late moments] */
    int crowded;      /* such sweeps in a row that were not over when the next one began */
    size_t waiting;   /* the last chunks, which the next job updates: [Note: joint updates] */
    int64_t elements; /* of them */
    hil_fence ready;  /* over: they may be updated */
    hil_fence all;    /* over: the last sweep is done */
};

/* Where the states of a chunk are during its update: at home, or in its slot. */
typedef struct hil_places {
    char *state[HIL_GRADIENT];
    char *gradient[HIL_USES]; /* by use */
    size_t staged;            /* bytes of the slot */
} hil_places;

/* A chunk that is being updated or squared. */
typedef struct hil_sweep_work {
    hil_store *store;
    const hil_unit *unit;
    hil_places places;
    int64_t base, count; /* elements of the unit */
    hil_block_scope scope;
} hil_sweep_work;

hil_status hil_sweep_open(hil_store *store);
void hil_sweep_close(hil_store *store);
/* [Note: stage] A free slot of the sweep, in pinned host memory, borrowed to copy states between
   the CPU and a GPU. Valid until everything that was queued on the compute stream before
   hil_stage_end is over. */
typedef struct hil_stage {
    char *memory;
    hil_event *used;
} hil_stage;
hil_status hil_stage_begin(hil_store *store, hil_stage *stage);
hil_status hil_stage_end(hil_store *store, const hil_stage *stage);

/* Whether a GPU updates the unit in its own memory. */
bool hil_unit_stays(const hil_store *store, const hil_unit *unit);
hil_sweep_chunk hil_sweep_chunk_of(const hil_store *store, hil_unit *unit, int64_t chunk);
/* Bytes of a slot that the chunk needs. */
size_t hil_sweep_chunk_staged(const hil_store *store, const hil_sweep_chunk *chunk);
/* The same for the first chunk of a unit that a GPU keeps, where it is saved; 0: the CPU can access
   the device's memory. */
size_t hil_unit_saved_staged(const hil_store *store, const hil_unit *unit);
/* Which states: a bit for each hil_unit_state. */
enum { HIL_STAGE_STATES = (1 << HIL_GRADIENT) - 1, HIL_STAGE_GRADIENTS = 1 << HIL_GRADIENT };
/* Takes a slot and reads the states into it, if the chunk needs one. In: *ready, what the read
   waits for. Out: *ready joined with the read's end. `then` (may be NULL) runs in the same job,
   after the read. */
hil_status hil_sweep_chunk_fill(hil_store *store, hil_sweep_chunk *chunk, unsigned what,
                                const hil_job *then, hil_fence *ready);
/* Writes the states from the slot back to their homes. */
hil_status hil_sweep_chunk_empty(hil_store *store, const hil_sweep_chunk *chunk, unsigned what,
                                 const hil_fence *after, hil_fence *over);
hil_sweep_work hil_sweep_chunk_work(hil_store *store, const hil_sweep_chunk *chunk);
/* Elements [from, to) of the unit, all of one member, as a block; gradients in segment order. */
hil_block hil_sweep_work_block(const hil_sweep_work *work, const hil_member *member, int64_t from,
                               int64_t to);

/* sweep.c */
/* Updates the chunk on the pool's threads, or queues that on a stream of the device. */
void hil_sweep_work_run(hil_sweep_work *work, hil_pool *pool);
hil_status hil_sweep_work_queue(const hil_sweep_work *work, hil_stream stream);
/* Seconds in which so many elements are updated, by the device if it is `here`; in a rehearsal. */
double hil_sweep_seconds(const hil_store *store, int64_t count, bool here);
/* The first given use of the matrix, in the order of segments; hil_unit_note_given was called. */
int hil_unit_first_use(const hil_unit *unit);
/* sweep_matrix.c: what comes before the sweep for matrices that are updated as a whole. */
hil_status hil_sweep_matrices(hil_store *store);
/* Submits a job that also waits for sweep.marked. */
hil_status hil_sweep_submit(hil_store *store, hil_job *job, hil_fence *over);
/* Copies which uses were given in this step, because the next step begins while the sweep runs. */
void hil_unit_note_given(hil_unit *unit);

#endif
