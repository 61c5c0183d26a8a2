/* checkpoint_options.h - what a checkpoint remembers of a run beside weights and moments. */
#ifndef HIL_RUN_CHECKPOINT_OPTIONS_H
#define HIL_RUN_CHECKPOINT_OPTIONS_H

#include "hilbert/run.h"

#include "base/json.h"
#include "comm/facts.h"
#include "optim/scaling.h"

/* The run as a checkpoint's state: where it is, and every option that decides its numbers. */
typedef struct hil_run_state {
    int64_t step, tokens;
    int64_t seq, micro_batch, data_tokens; /* as they turned out */
    uint64_t data_content;                 /* checksum of the tokens */
    uint64_t config_key;                   /* checksum of the model's config.json */
    const char *isa;                       /* instruction set that computed */
    double beta2;                          /* as it turned out */
    int64_t ranks;                         /* that computed */
    hil_scaling scaling;
} hil_run_state;

/* The caller releases *out with json_decref. */
hil_status hil_state_write(const hil_train_options *options, const hil_run_state *run,
                           json_t **out);

/* Reads step, tokens, loss scale and ranks, and refuses options that contradict those of the
   checkpoint. Another number of ranks may compute in other micro-batches. */
hil_status hil_state_read(const json_t *state, const hil_train_options *options,
                          hil_run_state *run);

/* Every option that decides the numbers, or what ranks do together, and the data as it turned out.
   `steps` is the last one, `held_out` a checksum of --eval-data. */
hil_status hil_state_facts(const hil_train_options *options, const hil_run_state *run,
                           int64_t steps, uint64_t held_out, hil_facts *facts);

#endif
