/* pretokenize.h - the pre-tokenizer of a tokenizer.json: cuts text into words, in steps of which
   each cuts the words of the one before. */
#ifndef HIL_TEXT_PRETOKENIZE_H
#define HIL_TEXT_PRETOKENIZE_H

#include "text/component.h"
#include "text/pattern/finder.h"

#include <jansson.h>

/* What becomes of the matches of a step's expression, and of the text between them. */
typedef enum hil_behavior {
    HIL_BEHAVIOR_ISOLATED,      /* each is a word */
    HIL_BEHAVIOR_REMOVED,       /* matches are dropped */
    HIL_BEHAVIOR_CONTIGUOUS,    /* neighbours of one kind are one word */
    HIL_BEHAVIOR_WITH_PREVIOUS, /* a match belongs to the text before it */
    HIL_BEHAVIOR_WITH_NEXT,
} hil_behavior;

typedef enum hil_prefix { HIL_PREFIX_NEVER, HIL_PREFIX_FIRST, HIL_PREFIX_ALWAYS } hil_prefix;

/* Expressions that have a name elsewhere. */
typedef enum hil_pretoken_known {
    HIL_KNOWN_OTHER,
    HIL_KNOWN_GPT2,
    HIL_KNOWN_LLAMA3,
    HIL_KNOWN_QWEN2,
    HIL_KNOWN_SPACE,
    HIL_KNOWN_DIGIT,
} hil_pretoken_known;

/* In this order: a prefix and other spaces for the word, the cuts, and characters for its bytes. */
typedef struct hil_pretoken_step {
    hil_prefix prefix; /* when a word that does not begin with `space` gets one */
    char space[5];     /* UTF-8, ends with NUL */
    bool replaces;     /* ' ' becomes `space` */
    hil_pretoken_known known;
    hil_pattern regex; /* without states: nothing is cut */
    hil_behavior behavior;
    bool invert; /* matches and the text between them change roles */
    bool maps;   /* each byte becomes the character that represents it */
} hil_pretoken_step;

#define HIL_PRETOKEN_MAX HIL_COMPONENT_MAX

/* Owns its steps. */
typedef struct hil_pretokenizer {
    hil_pretoken_step *steps;
    size_t count;
} hil_pretokenizer;

/* `value` may be NULL or null: the whole text is one word. */
hil_status hil_pretokenizer_load(hil_pretokenizer *pretokenizer, const json_t *value,
                                 const char *what);
void hil_pretokenizer_free(hil_pretokenizer *pretokenizer);

/* Whether the last step maps bytes to characters; if so, it does no longer: the model does. */
bool hil_pretokenizer_drop_map(hil_pretokenizer *pretokenizer);

/* Takes part of a word. `ended`: the last part of it, which may be empty. */
typedef struct hil_pretokenizer_sink {
    hil_status (*take)(void *context, const char *text, size_t size, bool ended);
    void *context;
} hil_pretokenizer_sink;

/* The state of one text. Owns the text that it holds back. Initialise with zeros. */
typedef struct hil_pretokenizer_state {
    struct hil_pretoken_hold {
        hil_finder finder;
        hil_text replaced, mapped;
        bool started; /* the step got a part of the word that it cuts */
        bool inside;  /* a part of what the finder found was passed on, but not its end */
        bool waits;   /* the last thing found has not ended: the next one may belong to it */
        hil_found before;
    } holds[HIL_PRETOKEN_MAX];
    bool begun; /* a word of the document was begun before */
} hil_pretokenizer_state;

/* Discards the unfinished document; keeps memory. */
void hil_pretokenizer_reset(hil_pretokenizer_state *state);
void hil_pretokenizer_state_free(hil_pretokenizer_state *state);

/* Cuts a fragment of valid UTF-8 into words; with `last`, the text ends after it. Each word is
   passed on as soon as later text cannot change it; a long one in parts. */
hil_status hil_pretokenizer_add(const hil_pretokenizer *pretokenizer, hil_pretokenizer_state *state,
                                const char *text, size_t size, bool last,
                                const hil_pretokenizer_sink *sink);

#endif
