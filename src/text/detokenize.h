/* detokenize.h - the decoder of a tokenizer.json: pieces back to text, one piece at a time. */
#ifndef HIL_TEXT_DETOKENIZE_H
#define HIL_TEXT_DETOKENIZE_H

#include "base/text.h"
#include "text/component.h"

#include <jansson.h>

typedef enum hil_detoken_kind {
    HIL_DETOKEN_JOIN, /* no decoder: a space between pieces */
    HIL_DETOKEN_BYTE_LEVEL,
    HIL_DETOKEN_BYTE_FALLBACK,
    HIL_DETOKEN_FUSE,
    HIL_DETOKEN_STRIP,
    HIL_DETOKEN_REPLACE,
    HIL_DETOKEN_METASPACE,
} hil_detoken_kind;

#define HIL_DETOKEN_MAX HIL_COMPONENT_MAX

/* Owns its texts. */
typedef struct hil_detokenizer {
    size_t count;
    struct hil_detoken_step {
        hil_detoken_kind kind;
        hil_text pattern;    /* REPLACE; STRIP and METASPACE: one character */
        hil_text content;    /* REPLACE */
        int64_t start, stop; /* STRIP */
        bool drop_first;     /* METASPACE: the first piece loses its spaces */
        bool streams;        /* the steps after it accept text in fragments of any size */
    } steps[HIL_DETOKEN_MAX];
} hil_detokenizer;

/* `value` may be NULL or null: pieces are joined with spaces. */
hil_status hil_detokenizer_load(hil_detokenizer *detokenizer, const json_t *value,
                                const char *what);
void hil_detokenizer_free(hil_detokenizer *detokenizer);

/* The state of one text. Owns the text that it holds back. Initialise with zeros. */
typedef struct hil_detokenizer_state {
    struct hil_detoken_hold {
        hil_text held, scratch;
        int64_t taken; /* STRIP that streams: characters stripped so far */
        bool started;
        bool stripped; /* STRIP that streams: nothing more is stripped */
    } holds[HIL_DETOKEN_MAX];
} hil_detokenizer_state;

void hil_detokenizer_state_free(hil_detokenizer_state *state);

/* Appends the text that later pieces cannot change. */
hil_status hil_detokenizer_add(const hil_detokenizer *detokenizer, hil_detokenizer_state *state,
                               const char *piece, size_t size, hil_text *out);
/* Appends the rest of the text and prepares the state for the next one. */
hil_status hil_detokenizer_end(const hil_detokenizer *detokenizer, hil_detokenizer_state *state,
                               hil_text *out);

#endif
