/* trainer.h - the internals of a trainer: a model with its store, engine and optimizer. */
#ifndef HIL_TRAIN_TRAINER_H
#define HIL_TRAIN_TRAINER_H

#include "hilbert/trainer.h"

#include "autograd/engine.h"
#include "optim/scaling.h"
#include "optim/update.h"
#include "plan/plan.h"
#include "machine/device_connect.h"
#include "store/update.h"

/* The step in progress. */
typedef struct hil_stepping {
    double began;
    hil_batch batch; /* with every array present; borrowed until the step has begun */
    int64_t micro_batch, micros;
    int64_t tokens;              /* predicted by all ranks */
    int64_t counted;             /* tokens or pairs over which the loss is a mean */
    int64_t chosen;              /* hil_pairs_size.tokens of all ranks */
    double sum[HIL_PREFERENCES]; /* over all ranks; see hil_engine_numbers */
} hil_stepping;

/* Of the positions of a batch. */
typedef struct hil_losses {
    float *value; /* NULL: none */
    size_t room;
} hil_losses;

struct hil_trainer {
    hil_model *model;
    hil_device *device;               /* computes the model; NULL: the CPU does */
    int sharers;                      /* ranks that share this device, with this one */
    hil_device_connection connection; /* to the devices of other ranks */
    hil_pool *pool, *update; /* threads for operations, and for the update that overlaps them */
    hil_planned planned;
    hil_tiers tiers;
    hil_engine *engine;
    hil_trainer_options options;
    hil_dtype dtype;
    bool fp8; /* products of the blocks are in 8 bits */
    hil_optimizer optimizer;
    hil_scaling scaling;
    int64_t step; /* steps done */
    hil_stepping now;
    hil_micro *micro;
    size_t micro_room;
    int32_t *filled; /* arrays of the batch that the caller left NULL */
    size_t filled_room;
    int32_t *mismatched; /* of hil_pairs_mismatch */
    size_t mismatched_room;
    hil_losses reference, mismatched_reference; /* under the reference, if it was precomputed */
    bool kl_given;                              /* by hil_trainer_set_kl */
    hil_timeline *timeline;                     /* borrowed; NULL: none */
    hil_plan spent; /* measured times of all steps, in the fields of a plan's prediction */
};

/* Opens a trainer with weights of zero; the caller fills the store. Copies the options; borrows the
   model, and what the options point to, until hil_trainer_destroy. The observer is called within
   the call. */
hil_status hil_trainer_open(hil_trainer **out, hil_model *model, const hil_trainer_options *options,
                            const hil_observer *observer);

/* With kto: adds the numbers of the batch's mismatched answers ([Note: mismatched answers] in
   pairs.h). With several ranks each passes a batch of its own, all of the same shape. */
hil_status hil_trainer_mismatched(hil_trainer *trainer, const hil_batch *batch,
                                  double sum[HIL_PREFERENCES]);
/* The kl of later calls of hil_trainer_loss; NULL: each finds that of its batch. */
void hil_trainer_set_kl(hil_trainer *trainer, const double *kl);

/* The log probability of each document of the batch under the model without its adapter, in the
   order of hil_batch.reference; `mismatched` (NULL: not) gets those of the mismatched answers. With
   several ranks each passes a batch of its own, all of the same shape. */
hil_status hil_trainer_reference(hil_trainer *trainer, const hil_batch *batch, double *logp,
                                 double *mismatched);

/* The router z-loss of the last step, before its coefficient; 0: there is none. */
double hil_trainer_router_z(const hil_trainer *trainer);

/* Refuses a batch with ids outside the vocabulary or shapes that the model cannot take. */
hil_status hil_trainer_check(const hil_trainer *trainer, const hil_batch *batch);
/* hil_trainer_step in two calls, for a batch that hil_trainer_check accepted. hil_trainer_begin
   returns once forward and backward are queued on the device, so the caller's work up to
   hil_trainer_end overlaps them (on the CPU they are done by then). Each successful begin must be
   followed by an end. */
hil_status hil_trainer_begin(hil_trainer *trainer, const hil_batch *batch, int64_t micro_batch);
hil_status hil_trainer_end(hil_trainer *trainer, double lr, hil_step_result *result);

/* Records computing, transfers and stalls in `timeline` from now on, borrowed; NULL: stops that. */
void hil_trainer_set_timeline(hil_trainer *trainer, hil_timeline *timeline);

#endif
