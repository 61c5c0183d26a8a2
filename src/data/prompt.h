/* prompt.h - the ids before a continuation: the same in training and in generation. */
#ifndef HIL_DATA_PROMPT_H
#define HIL_DATA_PROMPT_H

#include "text/tokenizer.h"

/* Borrows both; both NULL: bytes are ids. */
typedef struct hil_prompter {
    const hil_tokenizer *tokenizer;
    hil_encoder *encoder;
    int64_t bos, eot; /* -1: none */
} hil_prompter;

/* Appends what the post-processor puts before a text, then the ids of the text. Where that is
   nothing at all, BOS (with a tokenizer), else end-of-text; where the model has neither, nothing.
   What the post-processor puts after a text is left out: a prompt is to be continued. `text_at`
   (may be NULL) gets the place in `ids` of the text's first id. */
hil_status hil_prompt_encode(const hil_prompter *prompter, const char *text, size_t size,
                             hil_ids *ids, size_t *text_at);

/* The ids of a text alone. */
hil_status hil_prompter_text(const hil_prompter *prompter, const char *text, size_t size,
                             hil_ids *ids);

#endif
