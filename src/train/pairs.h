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

/* Means of what was summed over `pairs`. */
hil_preferences hil_pairs_mean(const double sum[HIL_PREFERENCES], int64_t pairs);

#endif
