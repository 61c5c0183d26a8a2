/* checkpoint_options.h - the options and progress of a run as saved in its checkpoints. */
#ifndef HIL_RUN_CHECKPOINT_OPTIONS_H
#define HIL_RUN_CHECKPOINT_OPTIONS_H

#include "hilbert/run.h"

#include "base/json.h"
#include "comm/facts.h"
#include "format/peft.h"
#include "optim/scaling.h"

/* Progress of a run, and the values that were derived from options and decide its numbers. */
typedef struct hil_run_state {
    int64_t step, tokens;
    int64_t seq, micro_batch, data_tokens; /* after defaults were applied */
    uint64_t data_content;                 /* checksum of the tokens */
    uint64_t config_key;                   /* checksum of the model's config.json */
    const hil_peft *adapter;               /* NULL: none */
    uint64_t base_key;                     /* digest of the weights under the adapter */
    uint64_t reference_key;                /* of a reference that was precomputed */
    const char *isa;                       /* instruction set that computed */
    double beta2;                          /* after the default was applied */
    int64_t ranks;                         /* that computed */
    hil_preference_loss preference;
    hil_scaling scaling;
    int64_t best_step; /* of the evaluation with the lowest loss; -1: none yet */
    double best_loss;
    int64_t stale; /* evaluations since then */
} hil_run_state;

/* The caller releases *out with json_decref. */
hil_status hil_run_state_write(const hil_train_options *options, const hil_run_state *run,
                               json_t **out);

/* Reads step, tokens, loss scale and ranks, and refuses options that contradict those of the
   checkpoint. The micro-batch may differ if the number of ranks does. */
hil_status hil_run_state_read(const json_t *state, const hil_train_options *options,
                              hil_run_state *run);

/* Adds what all ranks must have in common: every option that decides the numbers or the calls
   between ranks, and checksums of the data. `steps` is the number of the last step, `held_out` a
   checksum of --eval-data. */
hil_status hil_run_state_facts(const hil_train_options *options, const hil_run_state *run,
                               int64_t steps, uint64_t held_out, hil_facts *facts);

#endif
