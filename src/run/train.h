/* train.h - the state of a training run, internal to hil_train and hil_plan. */
#ifndef HIL_RUN_TRAIN_H
#define HIL_RUN_TRAIN_H

#include "run/batches.h"
#include "run/output_folder.h"
#include "run/metrics.h"
#include "format/checkpoint_saver.h"
#include "run/checkpoint_options.h"

/* Data to evaluate on. */
typedef struct hil_eval_set {
    const char *name; /* the path as it was given */
    hil_dataset *data;
    hil_ledger *reference;  /* of a reference that was computed before; NULL: none */
    hil_step_result result; /* of the last evaluation */
} hil_eval_set;

/* Owns everything except options, observer, comm. */
typedef struct hil_training {
    const hil_train_options *options;
    const hil_observer *observer; /* `watch`; NULL except on rank 0 */
    hil_comm *comm;
    int rank;
    hil_source source;
    bool bytes; /* the data has text, and its bytes are the token ids */
    hil_folder folder;
    char **paths;    /* of --data, without weights */
    double *weights; /* of the paths; NULL: they are not mixed */
    hil_dataset *data;
    hil_ledger *reference; /* of the data, as in hil_eval_set */
    hil_eval_set *sets;
    size_t set_count;
    hil_batches batches, eval_batches;
    hil_batch batch;     /* of the next step */
    int64_t batch_ready; /* number of the step that `batch` is ready for; 0: none */
    hil_model *model;
    hil_trainer *trainer;
    hil_metrics metrics;
    hil_observer watch;        /* keeps notes and passes everything on to `outer` */
    const hil_observer *outer; /* the caller's; NULL: none */
    json_t *notes;             /* said before the reporter was there; NULL: none */
    hil_timeline *timeline;
    hil_tier_budgets budget;
    hil_dtype save_dtype;
    int64_t parameters;
    hil_run_state run;
    hil_saver saver;
    int64_t steps;   /* number of the last step */
    int64_t share;   /* sequences of a batch that this rank computes */
    int64_t *index;  /* their windows */
    int stop;        /* the ranks have agreed to stop */
    bool replaced;   /* the weights are those of --reference */
    double started;  /* time at which the loop began */
    int64_t resumed; /* step of the checkpoint that the run resumed from; 0: none */
    hil_ids prompt;  /* that samples of text continue */
} hil_training;

/* Refuses options that contradict each other or are out of range, before anything is opened. */
hil_status hil_training_check(const hil_train_options *options);

/* What --loss and the options beside it ask for. */
hil_loss_request hil_training_loss(const hil_train_options *options);

/* Reads the paths of the data and refuses what cannot be read. Call once the source is open. */
hil_status hil_training_find_data(hil_training *training);
/* Opens the data and the sets to evaluate on; sets the number of steps. */
hil_status hil_training_open_data(hil_training *training);
/* Notes to the observer how files became windows, and in which shares they are drawn. */
void hil_training_note_data(const hil_training *training);
void hil_training_close_data(hil_training *training);

/* With a precomputed reference: reads what it says of the data, or computes it; then the model's
   weights are as they were loaded. Call before a checkpoint is. */
hil_status hil_training_reference(hil_training *training);

/* Takes weights, moments and step from the checkpoint of --resume-deepspeed. */
hil_status hil_training_load_deepspeed(hil_training *training);

/* On rank 0, before anything else: notes of the run go to its report and to `observer`. */
void hil_training_watch(hil_training *training, const hil_observer *observer);
/* On rank 0, once the run is ready for its first step: starts the reporter. Where that fails the
   run goes on without a report, unless memory is out or --tensorboard asks for events. */
hil_status hil_training_open_report(hil_training *training);
/* Writes the report a last time; a failure is only noted. `status` is that of the run. */
void hil_training_close_report(hil_training *training, hil_status status);

/* Samples of text. The ids of their prompt, checked, and the positions that a sample has, for which
   memory is planned; 0: there are no samples. */
hil_status hil_training_prompt(const hil_train_options *options, const hil_source *source,
                               hil_ids *prompt, int64_t *positions);
/* Continues the prompt with the model as it is, into the metrics, the report and a note. Between
   steps, on all ranks together. */
hil_status hil_training_sample(hil_training *training);

/* Prepares everything for the first step. Call hil_training_close even if it fails. */
hil_status hil_training_open(hil_training *training);
void hil_training_close(hil_training *training);

#endif
