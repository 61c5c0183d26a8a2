/* trainer.h - inside of a trainer: a model with its store, engine and optimizer. */
#ifndef HIL_TRAIN_TRAINER_H
#define HIL_TRAIN_TRAINER_H

#include "hilbert/trainer.h"

#include "autograd/engine.h"
#include "optim/scaling.h"
#include "optim/update.h"
#include "plan/plan.h"
#include "machine/device_connect.h"
#include "store/update.h"

/* A step on its way. */
typedef struct hil_stepping {
    double began;
    hil_batch batch; /* complete; borrowed until the step has begun */
    int64_t micro_batch, micros;
    int64_t tokens; /* predicted, by all ranks */
    double loss;    /* summed over them */
} hil_stepping;

struct hil_trainer {
    hil_model *model;
    hil_device *device;      /* that computes; NULL: the CPU */
    int sharers;             /* ranks that have this very device */
    hil_wires wires;         /* to those of other ranks */
    hil_pool *pool, *update; /* for operations; for the sweep beside them */
    hil_planned planned;
    hil_tiers tiers;
    hil_engine *engine;
    hil_trainer_options options;
    hil_dtype dtype;
    hil_optimizer optimizer;
    hil_scaling scaling;
    int64_t step; /* steps done */
    hil_stepping now;
    hil_micro *micro;
    size_t micro_room;
    int32_t *filled; /* the parts of a batch that the caller left out */
    size_t filled_room;
    hil_timeline *timeline; /* borrowed; NULL: none */
    hil_plan spent;         /* what was predicted for one step, measured over all: hil_plan_limit */
};

/* A trainer whose weights are still zero: the caller fills the store. */
hil_status hil_trainer_open(hil_trainer **out, hil_model *model, const hil_trainer_options *options,
                            const hil_observer *observer);

/* Whether the model can read the batch. */
hil_status hil_trainer_check(const hil_trainer *trainer, const hil_batch *batch);
/* hil_trainer_step in two halves, for a batch that was checked. The first returns when a device was
   told forward and backward: what is done until the second takes no time of it. A second follows
   every first that was well. */
hil_status hil_trainer_begin(hil_trainer *trainer, const hil_batch *batch, int64_t micro_batch);
hil_status hil_trainer_end(hil_trainer *trainer, double lr, hil_step_result *result);

/* Computing, transfers and waiting are written there from now on; NULL: nowhere. Borrowed. */
void hil_trainer_set_timeline(hil_trainer *trainer, hil_timeline *timeline);

#endif
