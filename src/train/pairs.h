/* pairs.h - pairs of answers in a batch, for losses that compare them. */
#ifndef HIL_TRAIN_PAIRS_H
#define HIL_TRAIN_PAIRS_H

#include "hilbert/trainer.h"

#include "autograd/model.h"
#include "ops/ops.h"

/* Refuses a loss whose reference is the model itself for one that cannot be that: without an
   adapter, or with more than the adapter trained. */
hil_status hil_pairs_check(const hil_model *model, const hil_preference_loss *loss);

/* What counts in a batch whose arrays are all there. */
typedef struct hil_pairs_size {
    int64_t pairs;  /* or answers, with kto */
    int64_t tokens; /* with cross-entropy, of the chosen answers */
} hil_pairs_size;
hil_pairs_size hil_pairs_measure(const hil_batch *batch, const hil_preference_loss *loss);

/* Copies the targets of the batch and adds those of the prompts of chosen answers:
   [Note: prompts]. */
void hil_pairs_read_prompts(const hil_batch *batch, int32_t *target);

/* Documents of a batch, with those of padding. */
int64_t hil_pairs_documents(const hil_batch *batch);
/* Log probabilities of the documents from the losses of their targets, in the order of positions.
 */
void hil_pairs_gather(const hil_batch *batch, const float *loss, double *logp);
/* The other way: losses whose sum over a document's targets is what it was, to the bit where there
   are three targets or more. */
void hil_pairs_spread(const hil_batch *batch, const double *logp, float *loss);

/* [Note: mismatched answers] The kl of kto is a mean over answers that were given to other prompts.
   They are those of the step itself: in each sequence an example gets the answer of the record
   before it, that of the first record the answer of the last, so that the sequence stays as long as
   it was. Of records that are pairs, chosen answers change places like single ones, and rejected
   ones among themselves; so none meets its own prompt. Where there is but one, it takes no part.
   The mean over the whole step, on all ranks, is known before its loss is computed: the other batch
   runs first, without gradients.

   Writes the other batch to `arrays`, four times as many numbers as `batch` has places. */
void hil_pairs_mismatch(const hil_batch *batch, int32_t *arrays, hil_batch *out);
/* kl from the numbers of the other batch. */
double hil_pairs_kl(const hil_preference_loss *loss, const double sum[HIL_PREFERENCES]);

/* The loss whose numbers were summed; its means; and from these the sums, added to `sum`. */
double hil_pairs_loss(const hil_preference_loss *loss, const double sum[HIL_PREFERENCES]);
hil_preferences hil_pairs_mean(hil_preference_kind kind, const double sum[HIL_PREFERENCES]);
void hil_pairs_sum(const hil_preferences *mean, double sum[HIL_PREFERENCES]);

/* What the loss of a result is a mean over: pairs, or predicted tokens. */
static inline int64_t hil_pairs_counted(const hil_step_result *result)
{
    return result->preferences.pairs ? result->preferences.pairs : result->tokens;
}

#endif
