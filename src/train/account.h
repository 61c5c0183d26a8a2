/* account.h - turns the counters of the links into the account of a step. */
#ifndef HIL_TRAIN_ACCOUNT_H
#define HIL_TRAIN_ACCOUNT_H

#include "hilbert/account.h"

#include "store/plan.h"

/* Adds bytes moved and time stalled since the last call to the account of a step, and to `spent`,
   the measured counterpart of a plan's prediction. */
void hil_account_take(hil_links *links, hil_step_account *out, hil_plan *spent);
/* Discards bytes and stalls since the last call, which belong to no step but to an evaluation or a
   checkpoint. Adds only the links' busy time to `spent`, because the update overlaps them. */
void hil_account_skip(hil_links *links, hil_plan *spent);
/* Adds a step to the account of several: peaks become the maximum, all else the sum. */
void hil_account_add(hil_step_account *all, const hil_step_account *step);

#endif
