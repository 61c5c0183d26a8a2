/* observer.h - callbacks for the progress of a long job. */
#ifndef HILBERT_OBSERVER_H
#define HILBERT_OBSERVER_H

#include <stdint.h>

#include "hilbert/account.h"
#include "hilbert/preference.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_step_report {
    int64_t step, steps; /* this step, from 1, and the number of steps */
    double loss, grad_norm, lr;
    int64_t tokens;  /* so far */
    int64_t learned; /* tokens predicted in this step */
    double seconds, tokens_per_second, seconds_left;
    int64_t loss_scale; /* of this step's gradients; 0: the dtype needs none */
    int64_t skipped;    /* updates skipped so far because fp16 overflowed */
    int ranks;
    hil_step_account account; /* of rank 0 */
    hil_tier_budgets budget;  /* of rank 0, as the options set it */
    hil_preferences preferences;
    double aux_loss; /* as in hil_step_result */
} hil_step_report;
/* Any callback may be NULL. Callbacks run on the thread that called the job. Their arguments are
   valid only during the call. */
typedef struct hil_observer {
    void *context;
    void (*note)(void *context, const char *line); /* a sentence for the user */
    void (*progress)(void *context, const char *what, uint64_t done, uint64_t total);
    void (*step)(void *context, const hil_step_report *report);
    void (*eval)(void *context, int64_t step, double loss);
} hil_observer;

#ifdef __cplusplus
}
#endif
#endif
