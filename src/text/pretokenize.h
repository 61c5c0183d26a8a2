/* pretokenize.h - the pre-tokenizer of a tokenizer.json: where words begin and end. */
#ifndef HIL_TEXT_PRETOKENIZE_H
#define HIL_TEXT_PRETOKENIZE_H

#include "text/bpe.h"

/* The regular expressions that have a hand-written matcher; NONE: the text is one word. */
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
    hil_prefix prefix; /* when a text that does not begin with `space` gets one */
    char space[5];     /* UTF-8, ends with NUL */
} hil_pretokenizer;

/* `value` may be NULL or null: the whole text is one word. */
hil_status hil_pretokenizer_load(hil_pretokenizer *pretokenizer, const json_t *value,
                                 const char *what);

/* The length of the first word of `text`, valid UTF-8 with size > 0. Unless `last`, 0 means that
   later text could change it. May cut a word where no merge can join its parts (hil_bpe_may_join).
 */
size_t hil_pretokenizer_next(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe,
                             const char *text, size_t size, bool last);

/* A long word of which the first part was encoded already. */
typedef struct hil_word {
    int kind;        /* of characters that continue it */
    uint32_t before; /* its last character, for kinds that need it */
    bool is_number;  /* it began with a number */
    bool has_line;   /* its spaces contain a line end */
} hil_word;

/* Begins a word too long to hold: `text` begins with it, has more than four characters, and
   hil_pretokenizer_next found no end. Returns the bytes that certainly belong to the word; pass
   the rest to hil_pretokenizer_continue. */
size_t hil_pretokenizer_begin(const hil_pretokenizer *pretokenizer, const char *text, size_t size,
                              hil_word *word);
/* Returns the bytes of `text` that continue the word. *ended: on entry, the text ends here; on
   return, the word ends. If it does not, pass the remaining text again with what follows it. */
size_t hil_pretokenizer_continue(const hil_pretokenizer *pretokenizer, const hil_bpe *bpe,
                                 hil_word *word, const char *text, size_t size, bool *ended);

#endif
