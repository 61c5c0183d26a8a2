/* added.h - added tokens: texts that become one id before anything else looks at them. */
#ifndef HIL_TEXT_ADDED_H
#define HIL_TEXT_ADDED_H

#include "text/normalize.h"
#include "text/vocab.h"

typedef struct hil_added_token {
    hil_text content; /* as it is looked for */
    int32_t id;
    bool single_word, lstrip, rstrip;
} hil_added_token;

/* Tokens looked for in one kind of text, sorted by content. Owns them. */
typedef struct hil_added {
    hil_added_token *tokens;
    size_t count, capacity;
    size_t longest; /* bytes */
    bool any_lstrip;
    uint32_t first[257]; /* tokens[first[b]..first[b + 1]) begin with byte b */
    uint32_t *by_id;     /* places in `tokens`, sorted by id */
} hil_added;

/* Reads "added_tokens": those found in raw text and those found in normalized text. New ones get
   the ids that Hugging Face tokenizers gives them; `vocab` learns their names. */
hil_status hil_added_load(hil_added *raw, hil_added *normal, hil_vocab *vocab,
                          const hil_normalizer *normalizer, const json_t *list, const char *what);
void hil_added_free(hil_added *added);

/* What is looked for to find this id, or NULL. */
const hil_text *hil_added_content(const hil_added *added, int32_t id);

/* One text being searched. Owns what is held back. Zero it to begin. */
typedef struct hil_added_scan {
    hil_text text;
    size_t segment;   /* where the text that was not handed on yet begins */
    size_t search;    /* where the search goes on */
    size_t blank;     /* what is before it and not before `segment` is known to be blanks */
    bool word_before; /* the character before `text` is part of a word */
    bool strips;      /* blanks at `segment` belong to the token before them */
    bool passed;      /* `segment` is in or after a run of blanks that was too long to be held */
} hil_added_scan;

/* Blanks that are held until it is known whether a token that strips the blanks before it follows.
   Longer runs are handed on; such a token after one is an error. */
#define HIL_ADDED_BLANKS ((size_t)1 << 20)

/* What the search came upon: an added token, or (id -1) text between them; size 0 and id -1:
   nothing certain is left. `text` is valid until the next call on the scan. */
typedef struct hil_added_hit {
    int32_t id;
    const char *text;
    size_t size;
} hil_added_hit;

/* Appends text; unless `last`, matches that later text could change wait. Call hil_added_next until
   nothing is left before adding more. */
hil_status hil_added_add(hil_added_scan *scan, const char *text, size_t size);
hil_status hil_added_next(const hil_added *added, hil_added_scan *scan, bool last,
                          hil_added_hit *hit);
/* Makes the scan ready for another text. */
void hil_added_reset(hil_added_scan *scan);

#endif
