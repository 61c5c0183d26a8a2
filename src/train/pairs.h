/* pairs.h - pairs of answers in a batch, for direct preference optimization. */
#ifndef HIL_TRAIN_PAIRS_H
#define HIL_TRAIN_PAIRS_H

#include "hilbert/trainer.h"

#include "autograd/model.h"
#include "ops/ops.h"

/* Refuses a model that cannot be its own reference: without an adapter, or with more than the
   adapter trained. */
hil_status hil_pairs_check(const hil_model *model);

/* The number of pairs that count in a batch whose arrays are all there. */
int64_t hil_pairs_count(const hil_batch *batch);

/* Means of what was summed over `pairs`, without the loss; and back: adds their sums to `sum`. */
hil_preferences hil_pairs_mean(const double sum[HIL_PREFERENCES], int64_t pairs);
void hil_pairs_sum(const hil_preferences *mean, double sum[HIL_PREFERENCES]);

/* What the loss of a result is a mean over: pairs, or predicted tokens. */
static inline int64_t hil_pairs_counted(const hil_step_result *result)
{
    return result->preferences.pairs ? result->preferences.pairs : result->tokens;
}

#endif
