/* batches.h - windows of a dataset as a batch. */
#ifndef HIL_RUN_BATCHES_H
#define HIL_RUN_BATCHES_H

#include "data/dataset.h"
#include "data/ledger.h"
#include "hilbert/run.h"
#include "train/trainer.h"

/* Owns its arrays; a batch filled from it is valid until the next fill. */
typedef struct hil_batches {
    hil_dataset *data;            /* borrowed */
    const hil_observer *observer; /* gets the progress of an evaluation; may be NULL */
    const volatile int *stop;     /* a non-zero value stops an evaluation; may be NULL */
    int64_t seq;
    int32_t *memory;
    size_t room;
    hil_ledger *reference; /* of the windows, borrowed; NULL: batches have none */
    double *logp[2];       /* of a batch's documents, and of mismatched answers */
    size_t logp_room[2];
} hil_batches;

/* Makes a batch of the `count` windows whose numbers are in `index`. */
hil_status hil_batches_fill(hil_batches *batches, const int64_t *index, int64_t count,
                            hil_batch *out);
void hil_batches_free(hil_batches *batches);
/* Moves the arrays of `from` to `to`, which has none. Batches filled from them become invalid. */
void hil_batches_move(hil_batches *from, hil_batches *to);

/* The mean loss over all windows in file order, `sequences` at a time. `first` (may be NULL) gets
   the time at which the first batch was ready. Ranks take the batches in turn (round robin); every
   rank gets the loss over all windows. */
hil_status hil_batches_eval(hil_batches *batches, hil_trainer *trainer, int64_t sequences,
                            double *first, hil_step_result *result);

#endif
