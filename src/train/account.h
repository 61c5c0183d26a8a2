/* account.h - the tiers' books as the outside sees them. */
#ifndef HIL_TRAIN_ACCOUNT_H
#define HIL_TRAIN_ACCOUNT_H

#include "hilbert/account.h"

/* The account of several steps: the highest peaks, and sums of the rest. */
void hil_account_add(hil_step_account *all, const hil_step_account *step);

#endif
