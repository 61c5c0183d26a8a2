/* record.h - one object of a JSONL file as a document, an example or a conversation. */
#ifndef HIL_DATA_RECORD_H
#define HIL_DATA_RECORD_H

#include "base/text.h"
#include "data/token_row.h"

#include <jansson.h>

typedef enum hil_record_kind {
    HIL_RECORD_TEXT,         /* a document */
    HIL_RECORD_EXAMPLE,      /* a prompt and its completion */
    HIL_RECORD_CONVERSATION, /* messages for the chat template */
    HIL_RECORD_TOKENS,       /* a row of token ids */
    HIL_RECORD_PAIR,         /* two examples, or two conversations, of which the first is better */
} hil_record_kind;

/* `text` is the completion of an example, or the better one of a pair. Borrows from its object, and
   owns `variables`, `worse`, `own_prompt` and `row`. */
typedef struct hil_record {
    hil_record_kind kind;
    const char *prompt, *text, *rejected;
    size_t prompt_size, text_size, rejected_size;
    json_t *variables;   /* of a conversation's template; NULL: examples */
    bool last_only;      /* of a conversation, all but the last message is its prompt */
    json_t *worse;       /* of the other conversation of a pair */
    bool judged, good;   /* an example or conversation has a label, and which */
    hil_text own_prompt; /* memory of a prompt that is not in the object */
    hil_token_row row;   /* of HIL_RECORD_TOKENS */
} hil_record;

/* The keys of the objects in a file. */
typedef enum hil_record_format {
    HIL_FORMAT_AUTO,       /* decided by the first object */
    HIL_FORMAT_TEXT,       /* "text" */
    HIL_FORMAT_PROMPT,     /* "prompt" and "completion" */
    HIL_FORMAT_PLAIN,      /* one of those two; only ever the result of HIL_FORMAT_AUTO */
    HIL_FORMAT_MESSAGES,   /* "messages" of "role" and "content" */
    HIL_FORMAT_SHAREGPT,   /* "conversations" of "from" and "value" */
    HIL_FORMAT_ALPACA,     /* "instruction", "input" and "output" */
    HIL_FORMAT_PREFERENCE, /* "chosen" and "rejected", with or without "prompt"; never detected */
    HIL_FORMAT_TOKENS,     /* "input_ids", with "labels" or a mask */
    HIL_FORMAT_JUDGED,     /* "prompt", "completion" and "label", or pairs; never detected */
} hil_record_format;

/* `word` is one of auto, text, prompt, messages, sharegpt, alpaca, tokens, preference; NULL is
 * auto. */
hil_status hil_record_format_read(const char *word, hil_record_format *format);

/* How objects are read. */
typedef struct hil_record_rules {
    hil_record_format format;
    bool chat;          /* there is a chat template: Alpaca's become conversations, not examples */
    const char *rename; /* how to rename keys, for errors; NULL: with jq */
    bool *labels;       /* becomes true if prompts with completions have a "label"; may be NULL */
} hil_record_rules;

/* Sets a format of HIL_FORMAT_AUTO by the keys of `object`; fails if it has not those of the
   format, as hil_record_read does. A key whose value is null is missing. */
hil_status hil_record_detect(hil_record_rules *rules, const json_t *object);
/* The keys that objects of a format have, as words for errors. */
const char *hil_record_expected(hil_record_format format);
/* The keys that are looked at in objects of a format, and NULL at the end. */
const char *const *hil_record_keys(hil_record_format format);

/* What `object` holds; valid as long as the object. Sets a format of HIL_FORMAT_AUTO by its keys.
   Errors say what is wrong with the object, not where it is. Free the record also after a failure.
 */
hil_status hil_record_read(hil_record_rules *rules, const json_t *object, hil_record *record);
void hil_record_free(hil_record *record);

#endif
