/* outline.h - the input of a plan: the units of a model with their sizes, its segments, and the
   micro-batches of a step. */
#ifndef HIL_PLAN_OUTLINE_H
#define HIL_PLAN_OUTLINE_H

#include "store/plan.h"
#include "tensor/quant.h"

#define HIL_OUTLINE_NAME 128

/* By what a step does with them. */
typedef enum hil_unit_kind {
    HIL_UNIT_TRAINED,
    HIL_UNIT_FROZEN,    /* has no gradient: of an adapter's base, or the model is not trained */
    HIL_UNIT_QUANTIZED, /* frozen as well */
    HIL_UNIT_KINDS
} hil_unit_kind;

typedef struct hil_outline_unit {
    char name[HIL_OUTLINE_NAME];
    int64_t elements;              /* of the whole unit, over all ranks */
    size_t bytes[HIL_UNIT_STATES]; /* of a rank's slice; for gradients, of one use */
    int uses;                      /* number of gradients: segments that use it */
    hil_quant quant;               /* not HIL_QUANT_NONE: its elements are bytes */
    int64_t count; /* units that it stands for: [Note: representative layers]; 0: 1 */
} hil_outline_unit;

typedef struct hil_outline_segment {
    const char *name;
    const size_t *unit; /* units that it may use, ascending */
    size_t units;
    int64_t count; /* segments that it stands for: [Note: representative layers]; 0: 1 */
} hil_outline_segment;

/* [Note: representative layers] The layers of a very large model are many, and of few kinds. For a
   machine that is only described, a model of fewer layers is rehearsed, and each of its layers
   stands for several of its kind: states take as many times the room when they are placed, what
   forward keeps does as well, and bytes of a step grow with the number of elements. So do its
   seconds: on the clock, operations take a part of theirs, so that those of every segment grow to
   as many times as it stands for. A layer of such a model has hundreds of tiles, so that the first
   and the last ones matter little. */

/* Borrows the units and segments. */
typedef struct hil_outline {
    const hil_outline_unit *unit;
    size_t units;
    const hil_outline_segment *segment;
    size_t segments;
    int64_t micros; /* micro-batches of a step on one rank */
    bool training;
    int ranks;     /* every unit is divided evenly among them; 0: 1 */
    bool saves;    /* checkpoints are written */
    size_t lanes;  /* bytes of hil_store_lanes */
    size_t matrix; /* bytes of hil_store_matrix_bytes */
    bool adapter;  /* what is trained belongs to an adapter */
} hil_outline;

static inline int hil_outline_ranks(const hil_outline *outline)
{
    return outline->ranks > 1 ? outline->ranks : 1;
}

static inline hil_unit_kind hil_outline_kind(const hil_outline_unit *unit)
{
    if (unit->quant != HIL_QUANT_NONE) return HIL_UNIT_QUANTIZED;
    return unit->uses ? HIL_UNIT_TRAINED : HIL_UNIT_FROZEN;
}

/* Units or segments that one stands for. */
static inline int64_t hil_outline_times(int64_t count)
{
    return count > 1 ? count : 1;
}
/* Elements of all units that the outline stands for, divided by those of its own units. */
double hil_outline_growth(const hil_outline *outline);

/* Bytes of a state, of all units that it stands for; for gradients, of all uses together. */
static inline uint64_t hil_outline_bytes(const hil_outline_unit *unit, int state)
{
    return (uint64_t)unit->bytes[state] * (uint64_t)hil_outline_times(unit->count) *
           (state == HIL_GRADIENT ? (uint64_t)unit->uses : (uint64_t)1);
}

/* Allocates the arrays of a plan, zeroed: everything is on the device. Free with hil_plan_free.
   Keeps nothing of the outline. */
hil_status hil_plan_create(hil_plan *plan, const hil_outline *outline);
/* Copies `from` to `to`, which has arrays for as many units and segments. */
void hil_plan_copy(hil_plan *to, const hil_plan *from);
void hil_plan_free(hil_plan *plan);

/* Records the bytes, stalls and busy seconds of a rehearsed step. */
void hil_plan_take_account(hil_plan *plan, const hil_account *account);
/* Multiplies the bytes and seconds of a step. */
void hil_plan_grow(hil_plan *plan, double times);

/* The bottleneck of a step: "compute", "disk", "host link", "update", "memory" or "network". */
const char *hil_plan_limit(const hil_plan *plan);

/* Bytes of each class of state on each tier. */
typedef struct hil_plan_table {
    uint64_t bytes[HIL_UNIT_STATES][HIL_TIERS];
} hil_plan_table;
void hil_plan_count(const hil_outline *outline, const hil_plan *plan, hil_plan_table *out);

#endif
