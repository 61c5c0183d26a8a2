/* sweep.h - inside of the sweep: chunks of states, where they are worked on, and slots. */
#ifndef HIL_STORE_SWEEP_H
#define HIL_STORE_SWEEP_H

#include "store/inside.h"

/* Memory that chunks are staged in. */
typedef struct hil_slot {
    char *memory;
    hil_fence free;
    hil_event *used; /* by a stage */
} hil_slot;

/* Elements [first, first + count) of the slice that are worked on together. */
typedef struct hil_sweep_chunk {
    hil_unit *unit;
    int64_t first, count;
    bool copy;   /* of states that live on the device, to save them */
    bool here;   /* what lives on the device is worked on there */
    bool visits; /* and what lives on the host comes there: [Note: guest updates] in plan.h */
    hil_slot *slot;
} hil_sweep_chunk;

/* Used in turn. */
typedef struct hil_circle {
    hil_slot *slot;
    int slots, next;
} hil_circle;

struct hil_sweep {
    hil_circle host, device; /* device: for what visits it */
    size_t guest;            /* bytes of a slot there */
    hil_sweep_chunk *chunk;
    size_t chunks;
    hil_unit **order;
    bool *listed;
    hil_update_fn *update;
    _Alignas(16) char rule[HIL_RULE_BYTES];
    hil_fence marked; /* computing that all jobs follow */
    bool saving;      /* this sweep does, too */
    hil_fence all;    /* over: the last sweep is done */
};

/* Where the states of a chunk are while they are worked on. */
typedef struct hil_places {
    char *state[HIL_GRADIENT];
    char *gradient[HIL_USES]; /* by use */
    size_t staged;            /* bytes of the slot */
} hil_places;

/* A chunk that is being worked on. */
typedef struct hil_working {
    hil_store *store;
    const hil_unit *unit;
    hil_places places;
    int64_t base, count; /* elements of the unit */
} hil_working;

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

/* Whether the device itself updates the unit. */
bool hil_unit_stays(const hil_store *store, const hil_unit *unit);
hil_sweep_chunk hil_sweep_chunk_of(const hil_store *store, hil_unit *unit, int64_t chunk);
/* Bytes that it needs of a slot. */
size_t hil_sweep_chunk_staged(const hil_store *store, const hil_sweep_chunk *chunk);
enum { HIL_STAGE_STATES = 1, HIL_STAGE_GRADIENTS = 2 };
/* Fills the slot of a chunk that needs one. *ready: what it waits for, then when it is there.
   `then` (may be NULL) is queued behind it by the same job. */
hil_status hil_sweep_chunk_fill(hil_store *store, hil_sweep_chunk *chunk, unsigned what,
                                const hil_job *then, hil_fence *ready);
/* Brings the states of a slot home. */
hil_status hil_sweep_chunk_empty(hil_store *store, const hil_sweep_chunk *chunk,
                                 const hil_fence *after, hil_fence *over);
hil_working hil_sweep_chunk_work(hil_store *store, const hil_sweep_chunk *chunk);
/* Elements [from, to) of the unit as a block of one member; gradients in the order of segments. */
hil_block hil_working_block(const hil_working *working, const hil_member *member, int64_t from,
                            int64_t to);

/* sweep.c */
/* Behind the computing that all jobs of the sweep follow. */
hil_status hil_sweep_submit(hil_store *store, hil_job *job, hil_fence *over);
/* Remembers what this step gave: the step ends while the sweep goes on. */
void hil_unit_note_given(hil_unit *unit);

#endif
