/* eval_messages.h - the loss of one conversation. */
#ifndef HIL_RUN_EVAL_MESSAGES_H
#define HIL_RUN_EVAL_MESSAGES_H

#include "hilbert/run.h"
#include "hilbert/trainer.h"

/* The trainer that an evaluation needs, for batches of one shape. Borrows from `options`. */
void hil_eval_trainer(const hil_eval_options *options, int64_t sequences, int64_t length,
                      hil_trainer_options *out);

/* hil_eval with options->messages: the loss on what training would learn of the conversation. */
hil_status hil_eval_messages(const hil_eval_options *options, const hil_observer *observer,
                             hil_eval_result *result);

#endif
