/* training.h - the run that the campaigns disturb: a small model whose states are spread over
   device, host and disk, and what must be true of it afterwards. */
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

/* Makes work/model, work/tokens.npy and work/reference, a run that nobody disturbed. */
void training_prepare(campaign_case *c);
/* The calls of an undisturbed run in a place. */
void training_count(campaign_case *c, training_place place, long count[TRACE_KINDS]);
/* training_prepare, and the calls in the places from `first` on. */
void training_prepare_counts(campaign_case *c, training_place first,
                             long counts[TRAINING_PLACES][TRACE_KINDS]);
/* The case's folder with an empty swap and without a run. */
void training_clear(campaign_case *c);
/* Trains under the tracer; gives the exit code of a program that ended as it may. */
int training_trace(campaign_case *c, const training_plan *plan, trace *t);
void training_command(campaign_case *c, const training_plan *plan, campaign_command *command);
/* Any place and ways of saving; none of them changes a number. */
training_plan training_random(campaign_case *c, bool resume);

/* After a disturbance: nothing is on the swap's drive, and what `latest` names is whole. */
void training_check_whole(campaign_case *c);
/* --resume ends well, with the bits of the reference and nothing temporary left. */
void training_check_resume(campaign_case *c);
/* The bits of case/run are the reference's; `metrics`: also its numbers. */
void training_check_same(campaign_case *c, bool metrics);

#endif
