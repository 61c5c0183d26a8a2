/* added.h - added tokens: texts that become one id before normalizer, words and BPE see them. */
#ifndef HIL_TEXT_ADDED_H
#define HIL_TEXT_ADDED_H

#include "text/normalize.h"
#include "text/vocab.h"

typedef struct hil_added_token {
    hil_text content; /* the text to find, normalized where normalized text is searched */
    int32_t id;
    bool single_word, lstrip, rstrip;
} hil_added_token;

/* The tokens to find in raw text, or those in normalized text, sorted by content. Owns them. */
typedef struct hil_added {
    hil_added_token *tokens;
    size_t count, capacity;
    size_t longest; /* bytes */
    bool any_lstrip;
    uint32_t first[257]; /* tokens[first[b]..first[b + 1]) begin with byte b */
    uint32_t *by_id;     /* indices into `tokens`, sorted by id */
} hil_added;

/* Reads "added_tokens" into `raw` and `normal`, by the text in which each is searched. Tokens that
   the model lacks get the ids that Hugging Face tokenizers gives them and are added to `vocab`. */
hil_status hil_added_load(hil_added *raw, hil_added *normal, hil_vocab *vocab,
                          const hil_normalizer *normalizer, const json_t *list, const char *what);
void hil_added_free(hil_added *added);

/* The text that becomes this id, or NULL. Borrowed from `added`. */
const hil_text *hil_added_content(const hil_added *added, int32_t id);

/* The search of one text. Owns the text that it holds back. Initialise with zeros. */
typedef struct hil_added_scan {
    hil_text text;
    size_t dropped;   /* bytes of the searched text before `text` */
    size_t segment;   /* start of the text that was not returned yet */
    size_t search;    /* where the search continues */
    size_t blank;     /* [segment, blank) is known to be whitespace */
    bool word_before; /* the character before `text` is part of a word */
    bool strips;      /* whitespace at `segment` belongs to the token before it */
    bool passed;      /* `segment` is in or after a whitespace run that was too long to hold */
} hil_added_scan;

/* Bytes of whitespace held back until a token that strips the whitespace before it is found or
   ruled out. A longer run is returned as text; such a token after it is an error. */
#define HIL_ADDED_WHITESPACE ((size_t)1 << 20)

/* A result of the search: an added token, or (id -1) text between tokens; size 0 and id -1: no
   certain result is left. `text` is valid until the next call on the scan. */
typedef struct hil_added_hit {
    int32_t id;
    const char *text;
    size_t size;
} hil_added_hit;

/* Appends a copy of the text. Call hil_added_next until no result is left before adding more;
   unless `last`, it holds back matches that later text could change. */
hil_status hil_added_add(hil_added_scan *scan, const char *text, size_t size);
hil_status hil_added_next(const hil_added *added, hil_added_scan *scan, bool last,
                          hil_added_hit *hit);
/* Prepares the scan for another text; keeps its memory. */
void hil_added_reset(hil_added_scan *scan);

#endif
