/* pattern.h - regular expressions of a tokenizer.json, as Oniguruma reads them, compiled to a table
   of states.

   [Note: regular expressions] Patterns of tokenizers need no backtracking: matching them looks at
   most one character ahead. So an expression becomes a table that is indexed by state and class of
   the next character; code points that no part of the expression tells apart share a class. A state
   is an ordered list of places in the expression, the most preferred first, so that a match is
   exactly the one that a backtracking engine finds first. Each character costs one lookup whatever
   the pattern is, and a search can stop between any two characters and continue later. */
#ifndef HIL_TEXT_PATTERN_PATTERN_H
#define HIL_TEXT_PATTERN_PATTERN_H

#include "base/text.h"
#include "text/unicode/unicode.h"

enum { HIL_PATTERN_PAGE = 128, HIL_PATTERN_PAGES = 0x110000 / HIL_PATTERN_PAGE };

/* States: no match can follow any more; the beginning of a match. */
enum { HIL_PATTERN_DEAD = 0, HIL_PATTERN_START = 1 };

/* What a set of characters is made of. */
typedef enum hil_pattern_item_kind {
    HIL_ITEM_RANGE,
    HIL_ITEM_CATEGORIES, /* general categories */
    HIL_ITEM_SPACE,
    HIL_ITEM_WORD,
    HIL_ITEM_HAN,
    HIL_ITEM_DIGIT, /* what the pre-tokenizer Digits cuts off */
    HIL_ITEM_MARK,  /* what the pre-tokenizer Punctuation cuts off */
    HIL_ITEM_SET,   /* another set */
} hil_pattern_item_kind;

/* Immutable after compiling. Owns its arrays. */
typedef struct hil_pattern {
    uint8_t ascii[128];                /* class of an ASCII character */
    uint16_t pages[HIL_PATTERN_PAGES]; /* code point / PAGE to a row of page_classes */
    uint8_t (*page_classes)[HIL_PATTERN_PAGE];
    size_t page_count, page_capacity;
    uint32_t classes; /* the last one, classes - 1, is the end of the text */
    uint32_t *table; /* [state][class]: next state * 2, + 1 if a match ends before this character */
    size_t states;
} hil_pattern;

/* `what` names the source in errors. Refuses expressions that can match an empty text. */
hil_status hil_pattern_compile(hil_pattern *regex, const char *pattern, const char *what);
/* The same for a pattern that is plain text; not empty. */
hil_status hil_pattern_compile_text(hil_pattern *regex, const char *text, const char *what);
/* The same for one character of a kind: SPACE, WORD, HAN, DIGIT or MARK. */
hil_status hil_pattern_compile_class(hil_pattern *regex, hil_pattern_item_kind kind);
void hil_pattern_free(hil_pattern *regex);

/* The class of the character at `text`; *step is its length. */
static inline uint32_t hil_pattern_class(const hil_pattern *regex, const char *text, size_t *step)
{
    unsigned char byte = (unsigned char)*text;
    if (byte < 0x80) {
        *step = 1;
        return regex->ascii[byte];
    }
    uint32_t point = hil_utf8_get(text, step);
    return regex->page_classes[regex->pages[point / HIL_PATTERN_PAGE]][point % HIL_PATTERN_PAGE];
}

static inline uint32_t hil_pattern_step(const hil_pattern *regex, uint32_t state, uint32_t class)
{
    return regex->table[state * regex->classes + class];
}

#endif
