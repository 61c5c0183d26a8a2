/* account.h - the links' books as the outside sees them. */
#ifndef HIL_TRAIN_ACCOUNT_H
#define HIL_TRAIN_ACCOUNT_H

#include "hilbert/account.h"

#include "store/plan.h"

/* Adds what moved and was waited for since the last call, to the account of a step and to `spent`,
   which is measured as a plan predicts it. */
void hil_account_take(hil_links *links, hil_step_account *out, hil_plan *spent);
/* What moved and was waited for since the last call belongs to no step: an evaluation, a
   checkpoint. Only the time that links were busy counts, for the update goes on beside them. */
void hil_account_skip(hil_links *links, hil_plan *spent);
/* The account of several steps: the highest peaks, and sums of the rest. */
void hil_account_add(hil_step_account *all, const hil_step_account *step);

#endif
