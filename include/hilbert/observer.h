/* observer.h - how a long job tells its caller how far it is. */
#ifndef HILBERT_OBSERVER_H
#define HILBERT_OBSERVER_H

#include <stdint.h>

#include "hilbert/account.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_step_report {
    int64_t step, steps; /* this one (from 1) and the last */
    double loss, grad_norm, lr;
    int64_t tokens;  /* so far */
    int64_t learned; /* predicted in this step */
    double seconds, tokens_per_second, seconds_left;
    int64_t loss_scale; /* of this step's gradients; 0: none is needed */
    int64_t skipped;    /* updates that an overflow in fp16 took, so far */
    int ranks;
    hil_step_account account; /* of rank 0 */
    hil_tier_budgets budget;  /* of rank 0, as the options set it */
} hil_step_report;
/* Progress of a run; all callbacks may be NULL. Called on the caller's thread. What they are given
   is theirs during the call only. */
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
