/* conversation.h - a file with a conversation, as the text that a model reads or as training data.
 */
#ifndef HIL_RUN_CONVERSATION_H
#define HIL_RUN_CONVERSATION_H

#include "data/dialogue.h"
#include "data/record.h"

/* Renders the JSON object in `file` by the chat template of the model's folder. Appends to *out. */
hil_status hil_conversation_render(const char *model, const char *file, bool generation_prompt,
                                   hil_rendering *out);

/* A file with one JSON object; `format` and `train_on` as in hil_train_options. */
typedef struct hil_conversation_file {
    const char *path, *format, *train_on;
} hil_conversation_file;

/* A conversation, a prompt and its completion, or a row of token ids, as training data: its tokens,
   and which of them are learned. Owns all of it but the model's name. */
typedef struct hil_conversation {
    const char *model;
    hil_chat_template *chat;
    hil_dialogue dialogue;
    json_t *object;
    hil_record record; /* what the object holds */
} hil_conversation;

/* Encodes by the chat template of the model's folder, or plain texts as they are; of a pair, the
   one with the better answer. Borrows model and tokenizer. Free it also after a failure. */
hil_status hil_conversation_learn(hil_conversation *out, const char *model,
                                  const hil_tokenizer *tokenizer,
                                  const hil_conversation_file *file);
/* Encodes the other one of a pair instead. */
hil_status hil_conversation_learn_worse(hil_conversation *conversation);
void hil_conversation_free(hil_conversation *conversation);

#endif
