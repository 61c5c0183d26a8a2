/* eval_messages.h - the loss of one conversation. */
#ifndef HIL_RUN_EVAL_MESSAGES_H
#define HIL_RUN_EVAL_MESSAGES_H

#include "hilbert/run.h"

/* hil_eval with options->messages: the loss on what training would learn of the conversation. */
hil_status hil_eval_messages(const hil_eval_options *options, const hil_observer *observer,
                             hil_eval_result *result);

#endif
