/* rehearse.h - a step without memory and without arithmetic: what a plan would need and do. */
#ifndef HIL_PLAN_REHEARSE_H
#define HIL_PLAN_REHEARSE_H

#include "autograd/model.h"
#include "store/plan.h"

/* What is rehearsed. The model's store is arranged and closed. */
typedef struct hil_rehearsal {
    hil_model *model;
    hil_device *device; /* asked for sizes; NULL: the CPU */
    hil_dtype compute;
    bool training;                          /* false: a forward pass only */
    int64_t sequences, length, micro_batch; /* of a step */
    int64_t cache;                          /* generation: positions of the key/value cache */
    const hil_speeds *speeds;
    const hil_drive *drives;
    int drive_count;
} hil_rehearsal;

/* Runs `plan` to learn the order of uses, then two steps as the real run will. Budgets are not
   applied: only the window, the ring, the chunks and the places of the plan are. A plan that needs
   more than its budgets is not rehearsed to the end; its seconds are those of a first step. Fills
   what the plan needs (work, parked, spilled, drive_bytes) and predicts (peaks, bytes of the second
   step, times). Fails where the plan cannot work at all, such as a window that is too small for
   what must be there at once; the message says so. */
hil_status hil_rehearse(const hil_rehearsal *rehearsal, hil_plan *plan);
/* The same of a plan that will not be followed: the store does not know its order afterwards. */
hil_status hil_rehearse_trial(const hil_rehearsal *rehearsal, hil_plan *plan);
/* Only what tensors need (work, parked), and the seconds of computing, or a little less: a pass
   without an update, of one whole group of micro-batches and the last, where that is another.
   Nothing of the engine's is left between groups. Where the plan has a device budget and tensors
   need more, it ends there, and `work` is a guess that is above the budget. */
hil_status hil_rehearse_tensors(const hil_rehearsal *rehearsal, hil_plan *plan);

#endif
