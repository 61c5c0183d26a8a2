/* plan.h - from a model and options to a plan: budgets, measured speeds, the choice. */
#ifndef HIL_PLAN_PLAN_H
#define HIL_PLAN_PLAN_H

#include "plan/budget.h"
#include "machine/gpus.h"
#include "plan/planner.h"
#include "plan/ranks.h"
#include "plan/rehearse.h"

/* Borrows everything. */
typedef struct hil_plan_request {
    hil_model *model;   /* its store is arranged and closed */
    hil_device *device; /* that computes; NULL: the CPU */
    hil_comm *comm; /* all ranks plan at once, and get the same plan. NULL: alone, for as many as
                       the store is divided into and the allowance has sharers */
    bool wired; /* what ranks exchange goes from device to device, at `network` bytes per second */
    double network; /* 0: unknown, or through `comm`, where it is measured */
    hil_dtype compute;
    bool training;
    int64_t sequences, length, micro_batch; /* of a step, on one rank */
    int64_t cache;                          /* generation: positions of the key/value cache */
    hil_allowance allowance;
    int threads;
    bool prefetch, recompute;
    int zero;                 /* stage, for several ranks; 0: 3 */
    int spare;                /* percent of memory that is left free */
    const char *file;         /* a plan to follow; NULL: one is chosen */
    const char *probe_cache;  /* NULL: speeds are assumed, not measured */
    const volatile int *stop; /* ends the planning when it becomes non-zero; may be NULL */
    /* hilbert plan: sizes are believed, folders need not exist and are not written to; speeds are
       found even where the choice does not depend on them. */
    bool hypothetical;
    const hil_gpu *gpu; /* that `device` stands for, which is not here; NULL: none */
} hil_plan_request;

/* A plan and what it was made from. */
typedef struct hil_planned {
    hil_plan plan;
    hil_outline outline;
    hil_outline_unit *unit;
    hil_outline_segment *segment;
    hil_budget budget; /* without `tokens` */
    size_t tokens;     /* host bytes of a batch's tokens */
    hil_machine machine;
    hil_drive drives[HIL_DRIVES];
    int drive_count;
} hil_planned;

/* Call hil_planned_free after a failure as well. */
hil_status hil_plan_make(const hil_plan_request *request, const hil_observer *observer,
                         hil_planned *out);
void hil_planned_free(hil_planned *planned);

/* See [Note: one plan] in ranks.h: all ranks came to the same one. */
hil_status hil_planned_compare(hil_comm *comm, const hil_planned *planned);

#endif
