/* rehearse.h - runs steps of a plan without memory or arithmetic, on a virtual clock. */
#ifndef HIL_PLAN_REHEARSE_H
#define HIL_PLAN_REHEARSE_H

#include "hilbert/preference.h"

#include "autograd/model.h"
#include "store/plan.h"

/* The inputs of a rehearsal. The model's store must be arranged and closed. */
typedef struct hil_rehearsal {
    hil_model *model;
    hil_device *device; /* asked for sizes; NULL: the CPU */
    hil_dtype compute;
    bool training;                          /* false: a forward pass only */
    int64_t sequences, length, micro_batch; /* of a step */
    int64_t cache; /* positions of the key/value cache, to generate; with training, for samples */
    hil_preference_loss preference;
    const hil_speeds *speeds;
    const hil_drive *drives;
    int drive_count;
    const char *trace; /* file for the timeline of the second step, NULL: none */
    /* See [Note: representative layers] in outline.h; 0 and 1: each layer stands for itself. */
    double growth; /* of the elements */
    double layers; /* that each layer stands for, on average */
    /* The step's seconds are those of the clock times `growth`. So of those of an operation in
       segment i the clock takes share[i]; NULL: all. */
    const double *share;
} hil_rehearsal;

/* Finds the order of use, then runs two steps as the real run will, with the plan's window, ring,
   chunks and places, but without its budgets. Fills in what the plan needs (work, offloaded,
   spilled, drive_bytes) and predicts (peaks, bytes of the second step, times). If it needs more
   than its budgets it stops after the first step, and the times are that step's. Fails if the plan
   cannot work at all, for example if the window is too small for what is in use at once. */
hil_status hil_rehearse(const hil_rehearsal *rehearsal, hil_plan *plan);
/* The same for a candidate: afterwards the store does not know the order of use. */
hil_status hil_rehearse_trial(const hil_rehearsal *rehearsal, hil_plan *plan);
/* Finds only what tensors need (work, offloaded, the disk's peak) and a lower bound on the seconds
   of computing.
   Runs one whole group of micro-batches, and the last one if it differs, without an update: the
   engine keeps nothing between groups. `limited`: if tensors exceed the plan's device or host
   budget, it stops, and `work` is an estimate above the device budget. */
hil_status hil_rehearse_tensors(const hil_rehearsal *rehearsal, hil_plan *plan, bool limited);

#endif
