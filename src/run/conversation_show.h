/* conversation_show.h - shows which tokens of a conversation training learns. */
#ifndef HIL_RUN_CONVERSATION_SHOW_H
#define HIL_RUN_CONVERSATION_SHOW_H

#include "hilbert/run.h"
#include "text/tokenizer.h"

/* Reads the JSON object in options->messages as a record of training data and prints one line per
   token: its number, its id, "learned" or "-", and its text as a JSON string; then a count. */
hil_status hil_conversation_show(const hil_tokenize_options *options,
                                 const hil_tokenizer *tokenizer, FILE *out);

#endif
