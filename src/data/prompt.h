/* prompt.h - the ids of a prompt, equal in training and in generation. */
#ifndef HIL_DATA_PROMPT_H
#define HIL_DATA_PROMPT_H

#include "text/tokenizer.h"

/* Borrows both; both NULL: bytes are ids. */
typedef struct hil_prompter {
    const hil_tokenizer *tokenizer;
    hil_encoder *encoder;
    int64_t bos, eot; /* -1: none */
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

#endif
