/* trainer.h - inside of a trainer: a model with its store, engine and optimizer. */
#ifndef HIL_TRAIN_TRAINER_H
#define HIL_TRAIN_TRAINER_H

#include "hilbert/trainer.h"

#include "autograd/engine.h"
#include "optim/scaling.h"
#include "optim/sweep.h"
#include "train/plan.h"
#include "train/wires.h"

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
    hil_micro *micro;
    size_t micro_room;
    int32_t *filled; /* the parts of a batch that the caller left out */
    size_t filled_room;
    const hil_saving *saving; /* gets the states that the next step leaves; NULL: nobody does */
    hil_timeline *timeline;   /* borrowed; NULL: none */
    hil_plan spent; /* what was predicted for one step, measured over all: hil_plan_limit */
};

/* A trainer whose weights are still zero: the caller fills the store. */
hil_status hil_trainer_open(hil_trainer **out, hil_model *model, const hil_trainer_options *options,
                            const hil_observer *observer);

/* Computing, transfers and waiting are written there from now on; NULL: nowhere. Borrowed. */
void hil_trainer_set_timeline(hil_trainer *trainer, hil_timeline *timeline);

#endif
