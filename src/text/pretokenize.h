/* pretokenize.h - the pre-tokenizer of a tokenizer.json: where words begin and end. */
#ifndef HIL_TEXT_PRETOKENIZE_H
#define HIL_TEXT_PRETOKENIZE_H

#include "text/bpe.h"

/* The regular expressions that are matched by hand; NONE takes the text as one word. */
typedef enum hil_pattern {
    HIL_PATTERN_NONE,
    HIL_PATTERN_GPT2,
    HIL_PATTERN_LLAMA3,
    HIL_PATTERN_QWEN2
} hil_pattern;

typedef enum hil_digits { HIL_DIGITS_PLAIN, HIL_DIGITS_RUNS, HIL_DIGITS_SINGLE } hil_digits;

typedef enum hil_prefix { HIL_PREFIX_NEVER, HIL_PREFIX_FIRST, HIL_PREFIX_ALWAYS } hil_prefix;

typedef struct hil_pretokenizer {
    hil_pattern pattern;
    hil_digits digits;
    bool byte_level;
    bool metaspace;    /* ' ' becomes `space` */
    bool split_space;  /* a word begins at every `space` */
    hil_prefix prefix; /* texts that do not begin with `space` get one in front */
    char space[5];     /* UTF-8, ends with NUL */
} hil_pretokenizer;

/* `value` may be NULL or null: the whole text is one word. */
hil_status hil_pretokenizer_load(hil_pretokenizer *pretokenizer, const json_t *value,
                                 const char *what);

/* The length of the word that valid UTF-8 `text` begins with, size > 0. Unless `last`, 0 means that
   later text could change it. A word may be shorter than the pre-tokenizer's own where `bpe` says
   that cutting makes no difference. */
size_t hil_pretokenizer_next(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe,
                             const char *text, size_t size, bool last);

/* Where a word goes on whose beginning has been handed on. */
typedef struct hil_word {
    int kind;        /* of characters that it goes on with */
    uint32_t before; /* its last character, where it depends on that */
    bool is_number;  /* it began with a number */
    bool has_line;   /* a line end is among its spaces */
} hil_word;

/* For a word too long to wait for: `text` begins with it, hil_pretokenizer_next found no end, and
   it has more than four characters. Returns how much of the text surely is the word; the rest is
   for hil_pretokenizer_go_on. */
size_t hil_pretokenizer_begin(const hil_pretokenizer *pretokenizer, const char *text, size_t size,
                              hil_word *word);
/* How much more of `text` is the word. *ended says on entry whether the text ends here, and on
   return whether the word does; if not, the rest of the text must be handed in again before what
   follows.
 */
size_t hil_pretokenizer_go_on(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe,
                              hil_word *word, const char *text, size_t size, bool *ended);

#endif
