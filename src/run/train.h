/* train.h - inside of hil_train: everything a run holds, opened and closed. */
#ifndef HIL_RUN_TRAIN_H
#define HIL_RUN_TRAIN_H

#include "run/batches.h"
#include "run/output_folder.h"
#include "run/metrics.h"
#include "run/checkpoint_saver.h"
#include "run/checkpoint_options.h"

/* Everything a run holds. */
typedef struct hil_training {
    const hil_train_options *options;
    const hil_observer *observer; /* NULL on all ranks but the first */
    hil_comm *comm;
    int rank;
    hil_source source;
    bool bytes; /* the bytes of a text are its tokens, and there is text */
    hil_folder folder;
    hil_dataset *data, *held_out;
    hil_batches batches, eval_batches;
    hil_batch batch;     /* of the step that is next */
    int64_t batch_ready; /* that step, when it has its batch */
    hil_model *model;
    hil_trainer *trainer;
    hil_metrics metrics;
    hil_timeline *timeline;
    hil_tier_budgets budget;
    hil_dtype save_dtype;
    int64_t parameters;
    hil_run_state run;
    hil_saver saver;
    int64_t steps;   /* the last one */
    int64_t share;   /* of a batch, the sequences of this rank */
    int64_t *index;  /* of their windows */
    int stop;        /* all ranks know that the run is to stop */
    double started;  /* of the loop */
    int64_t resumed; /* steps that were there before */
} hil_training;

/* Refuses options that contradict each other or are out of range, before anything is opened. */
hil_status hil_training_check(const hil_train_options *options);

/* train_open.c: everything up to the first step. Call hil_training_close after a failure as well.
 */
hil_status hil_training_open(hil_training *training);
void hil_training_close(hil_training *training);

#endif
