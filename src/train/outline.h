/* outline.h - what a plan is about: the units of a model with their sizes, its segments, and how
   many micro-batches a step has. */
#ifndef HIL_TRAIN_OUTLINE_H
#define HIL_TRAIN_OUTLINE_H

#include "store/plan.h"
#include "tensor/tensor.h"

#define HIL_OUTLINE_NAME 128
#define HIL_OUTLINE_USES 4

typedef struct hil_outline_unit {
    char name[HIL_OUTLINE_NAME];
    int64_t elements;
    size_t bytes[HIL_UNIT_STATES]; /* of a gradient: of one use */
    int uses;                      /* gradients */
    int users;                     /* segments that use it, frozen or not */
    int user[HIL_OUTLINE_USES];
} hil_outline_unit;

/* Borrows the units and names. */
typedef struct hil_outline {
    const hil_outline_unit *unit;
    size_t units;
    const char *const *segment; /* names */
    size_t segments;
    int64_t micros; /* of a step */
    bool training;
} hil_outline;

/* Bytes of a state, of all uses. */
static inline uint64_t hil_outline_bytes(const hil_outline_unit *unit, int state)
{
    return (uint64_t)unit->bytes[state] *
           (state == HIL_GRADIENT ? (uint64_t)unit->uses : (uint64_t)1);
}

/* A plan's own arrays, zeroed: everything on the device. */
hil_status hil_plan_create(hil_plan *plan, const hil_outline *outline);
/* `to` becomes equal to `from`, which has as many units and segments. */
void hil_plan_copy(hil_plan *to, const hil_plan *from);
void hil_plan_free(hil_plan *plan);

/* The link or the arithmetic that a step waits for most: "compute", "disk", "host link", "update",
   "memory". */
const char *hil_plan_limit(const hil_plan *plan);

/* Bytes of each class of state on each tier. */
typedef struct hil_plan_table {
    uint64_t bytes[HIL_UNIT_STATES][HIL_TIERS];
} hil_plan_table;
void hil_plan_count(const hil_outline *outline, const hil_plan *plan, hil_plan_table *out);

#endif
