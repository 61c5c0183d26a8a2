/* prompt.h - the ids of a prompt, equal in training and in generation. */
#ifndef HIL_DATA_PROMPT_H
#define HIL_DATA_PROMPT_H

#include "data/record.h"
#include "text/tokenizer.h"

/* Borrows all of it; tokenizer and encoder both NULL: bytes are ids. */
typedef struct hil_prompter {
    const hil_tokenizer *tokenizer;
    hil_encoder *encoder;
    int64_t bos, eot;     /* -1: none */
    const int64_t *stops; /* what else ends a text, up to -1; NULL: nothing */
} hil_prompter;

/* Appends the ids that the post-processor puts before a text, then those of the text. If that is
   no id at all, appends BOS (with a tokenizer), else end-of-text, if the model has one. Omits the
   ids that the post-processor puts after a text, because the model continues the prompt. *text_at
   (may be NULL) is the index in `ids` of the text's first id. */
hil_status hil_prompt_encode(const hil_prompter *prompter, const char *text, size_t size,
                             hil_ids *ids, size_t *text_at);

/* Appends the ids of a text without the post-processor's. */
hil_status hil_prompter_text(const hil_prompter *prompter, const char *text, size_t size,
                             hil_ids *ids);

/* The ids of a prompt and of its completion, in place of what both hold. If the ids of prompt and
   completion as one text begin with the prompt's, the rest is the completion (no prefix space in
   the middle); else a token would cross the border, and the completion is encoded alone. It ends
   with end-of-text, if the model has one, or with another stop id. */
hil_status hil_prompter_example(const hil_prompter *prompter, const hil_record *record,
                                hil_ids *prompt, hil_ids *completion);

#endif
