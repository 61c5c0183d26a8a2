/* dialogue.h - conversations of several formats as the variables of a chat template. */
#ifndef HIL_DATA_DIALOGUE_H
#define HIL_DATA_DIALOGUE_H

#include "text/chat_learned.h"

/* A conversation as tokens. Set the first four fields, the rest to zeros; free it. */
typedef struct hil_dialogue {
    const hil_chat_template *chat;
    const hil_tokenizer *tokenizer; /* both NULL: bytes are ids */
    hil_encoder *encoder;
    hil_answers answers;
    hil_ids ids;
    hil_rendering rendering;
    hil_token_span *learned; /* as many as the rendering has spans */
    size_t learned_room;
} hil_dialogue;

/* Renders a conversation and encodes it, in place of the one before. Nothing is added to its
   tokens: the template decides how it begins and ends. */
hil_status hil_dialogue_encode(hil_dialogue *dialogue, const json_t *variables);
void hil_dialogue_free(hil_dialogue *dialogue);

/* All three give a new JSON object for the caller: `messages` with `role` and `content` as
   `transformers` takes them, `tools` (null: none) and what else the record has for the template.
   They fail if the record is not of that format; the message says what is wrong. */

/* {"messages": [{"role": ..., "content": ...}, ...], "tools": [...]}. A content of parts becomes
   one text. */
hil_status hil_dialogue_messages(const json_t *record, json_t **variables);
/* {"conversations": [{"from": "human", "value": ...}, ...], "system": ..., "tools": ...}. */
hil_status hil_dialogue_sharegpt(const json_t *record, json_t **variables);
/* {"instruction": ..., "input": ..., "output": ..., "system": ..., "history": [[a, b], ...]}. */
hil_status hil_dialogue_alpaca(const json_t *record, json_t **variables);

/* {"prompt": [...], "completion": [...]}: as one conversation. The completion is one message, an
   answer; a prompt that is a text is the user's message. */
hil_status hil_dialogue_completion(const json_t *record, json_t **variables);

/* {"prompt": [...], "chosen": [...], "rejected": [...]}: the variables of two conversations, the
   better one first, which differ in their last message alone, an answer. Messages are as in the
   first two formats. Without "prompt", or where it is a text and the others begin with more than an
   answer, they are whole conversations. */
hil_status hil_dialogue_pair(const json_t *record, json_t *variables[2]);

/* The prompt of Stanford's Alpaca, for a model without a chat template. Appends to *prompt. */
hil_status hil_dialogue_alpaca_prompt(const json_t *record, hil_text *prompt);

#endif
