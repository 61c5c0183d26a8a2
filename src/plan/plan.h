/* plan.h - makes the plan of a run from a model and options: budgets, speeds, choice. */
#ifndef HIL_PLAN_PLAN_H
#define HIL_PLAN_PLAN_H

#include "plan/budget.h"
#include "machine/cluster.h"
#include "plan/planner.h"
#include "plan/ranks.h"
#include "plan/rehearse.h"

/* Borrows everything. */
typedef struct hil_plan_request {
    hil_model *model;   /* its store is arranged and closed */
    hil_device *device; /* computes the model; NULL: the CPU does */
    hil_comm *comm; /* all ranks plan together and get the same plan; NULL: this process plans alone
                       for the store's ranks and the allowance's sharers */
    bool connected; /* ranks exchange data from device to device, at `network` bytes per second */
    double network; /* 0: unknown; with `comm` it is measured */
    hil_dtype compute;
    bool training;
    int64_t sequences, length, micro_batch; /* of a step, on one rank */
    int64_t cache; /* positions of the key/value cache, to generate; with training, for samples */
    hil_preference_loss preference;
    hil_allowance allowance;
    int threads;
    bool prefetch, recompute;
    int zero;                 /* ZeRO stage with several ranks; 0: 3 */
    int spare;                /* percent of memory to leave free */
    bool any;                 /* the first plan that works will do: see hil_planner */
    const char *file;         /* plan file to follow; NULL: the planner chooses */
    const char *trace;        /* file for the timeline of the planned step; NULL: none */
    const char *probe_cache;  /* NULL: speeds are assumed, not measured */
    const volatile int *stop; /* a non-zero value stops the planner; may be NULL */
    /* hilbert plan: sizes are not checked, folders need not exist and are not written to; speeds
       are found even if the choice does not depend on them. */
    bool hypothetical;
    const hil_gpu *gpu;         /* GPU that `device` simulates; NULL: none */
    const hil_cluster *cluster; /* whose speeds are taken; `gpu` is its GPU; NULL: none */
    /* How many layers each of the model's stands for, or NULL: for itself.
       [Note: representative layers] in outline.h. */
    const int64_t *stands;
} hil_plan_request;

/* A plan and its inputs. Owns them. */
typedef struct hil_planned {
    hil_plan plan;
    hil_outline outline;
    hil_outline_unit *unit;
    hil_outline_segment *segment;
    double *share;     /* of hil_rehearsal */
    hil_budget budget; /* `tokens` already subtracted */
    size_t tokens;     /* host bytes of a batch's tokens */
    hil_machine machine;
    hil_drive drives[HIL_DRIVES];
    int drive_count;
} hil_planned;

/* Call hil_planned_free even if it fails. */
hil_status hil_plan_make(const hil_plan_request *request, const hil_observer *observer,
                         hil_planned *out);
void hil_planned_free(hil_planned *planned);

/* Fails unless all ranks made the same plan; see [Note: one plan] in ranks.h. */
hil_status hil_planned_compare(hil_comm *comm, const hil_planned *planned);

#endif
