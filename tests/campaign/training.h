/* training.h - the run that campaigns disturb: a small model with states on device, host and disk,
   and the checks after a disturbance. */
#ifndef HIL_TESTS_TRAINING_H
#define HIL_TESTS_TRAINING_H

#include "campaign/trace.h"

typedef enum training_place {
    TRAINING_PLAIN,
    TRAINING_DISK,         /* states on disk */
    TRAINING_DISK_THREADS, /* the same without io_uring, so that the tracer sees each transfer */
    TRAINING_PLACES
} training_place;

typedef struct training_plan {
    training_place place;
    bool resume;
    int steps, save_every, keep;
} training_plan;

enum { TRAINING_STEPS = 6 };
#define TRAINING_SECONDS 120.0 /* longer than any run takes on a busy machine */

/* Makes work/model, work/tokens.npy and work/reference, an undisturbed run. */
void training_prepare(campaign_case *c);
/* Counts the calls of an undisturbed run. */
void training_count(campaign_case *c, training_place place, long count[TRACE_KINDS]);
/* training_prepare, then training_count for the places from `first` on. */
void training_prepare_counts(campaign_case *c, training_place first,
                             long counts[TRAINING_PLACES][TRACE_KINDS]);
/* Empties the case's folder: no run, an empty swap folder. */
void training_clear(campaign_case *c);
/* Trains under the tracer; returns the exit code if it is an allowed one. */
int training_trace(campaign_case *c, const training_plan *plan, trace *t);
void training_command(campaign_case *c, const training_plan *plan, campaign_command *command);
/* A random place, and random options of saving; none of them changes a number. */
training_plan training_random(campaign_case *c, bool resume);

/* Checks after a disturbance that no swap file is left and the checkpoint named by `latest` is
   whole. */
void training_check_whole(campaign_case *c);
/* Checks that --resume succeeds with the bits of the reference and leaves no temporary file. */
void training_check_resume(campaign_case *c);
/* Compares the bits of case/run with the reference; `metrics`: also its metrics. */
void training_check_same(campaign_case *c, bool metrics);

#endif
