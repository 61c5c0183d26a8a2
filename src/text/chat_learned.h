/* chat_learned.h - what a model has to learn of a rendered conversation, in bytes and in tokens. */
#ifndef HIL_TEXT_CHAT_LEARNED_H
#define HIL_TEXT_CHAT_LEARNED_H

#include "text/chat_template.h"
#include "text/tokenizer.h"

typedef enum hil_answers {
    HIL_ANSWERS_ASSISTANT, /* the assistant's messages */
    HIL_ANSWERS_LAST,      /* the last of them */
    HIL_ANSWERS_ALL,       /* every token */
} hil_answers;

/* `word` is one of assistant, last, all; NULL is assistant. */
hil_status hil_answers_read(const char *word, hil_answers *on);

/* Renders a conversation, without a generation prompt, into *out, which must be empty. The spans
   are then what is learned: what {% generation %} blocks wrote, if the template has them. Otherwise
   an answer begins where the rendering of the messages before it ends, with a generation prompt,
   and ends with the rendering of the messages up to it; both must be prefixes of the whole. If one
   is not, fails with the number of the message. `limits` may be NULL. */
hil_status hil_chat_template_learned(const hil_chat_template *chat, const json_t *variables,
                                     hil_answers on, const hil_jinja_limits *limits,
                                     hil_rendering *out);

/* Tokens [begin, end) of a list of ids. */
typedef struct hil_token_span {
    size_t begin, end;
} hil_token_span;

/* Appends the ids of the rendered text, without a post-processor. tokens[i] gets the ids that
   contain a byte of spans[i], as indices in *ids; a token on the border belongs to the span. A NULL
   encoder: bytes are ids. */
hil_status hil_rendering_encode(const hil_rendering *rendering, const hil_tokenizer *tokenizer,
                                hil_encoder *encoder, hil_ids *ids, hil_token_span *tokens);

#endif
