/* normalize.h - the normalizer of a tokenizer.json, on text that arrives in fragments. */
#ifndef HIL_TEXT_NORMALIZE_H
#define HIL_TEXT_NORMALIZE_H

#include "text/unicode/charsmap.h"
#include "text/component.h"
#include "text/pattern/finder.h"
#include "text/unicode/normal_form.h"

#include <jansson.h>

typedef enum hil_normal_kind {
    HIL_NORMAL_FORM, /* NFC, NFD, NFKC or NFKD */
    HIL_NORMAL_LOWERCASE,
    HIL_NORMAL_STRIP_ACCENTS,
    HIL_NORMAL_STRIP,
    HIL_NORMAL_PREPEND,
    HIL_NORMAL_REPLACE,
    HIL_NORMAL_FIND, /* Replace with a regular expression */
    HIL_NORMAL_CHARSMAP
} hil_normal_kind;

#define HIL_NORMAL_MAX HIL_COMPONENT_MAX

/* Owns its texts and tables. */
typedef struct hil_normalizer {
    size_t count;
    struct hil_normal_step {
        hil_normal_kind kind;
        hil_text pattern; /* REPLACE: the text to replace; not empty */
        hil_text content; /* PREPEND, REPLACE and FIND */
        hil_normal_form form;
        bool left, right; /* STRIP: the ends that lose their whitespace */
        hil_pattern *find;
        hil_charsmap charsmap;
    } steps[HIL_NORMAL_MAX];
} hil_normalizer;

/* `value` may be NULL or null: no normalizer. */
hil_status hil_normalizer_load(hil_normalizer *normalizer, const json_t *value, const char *what);
void hil_normalizer_free(hil_normalizer *normalizer);

/* The state of one text. Owns the text that it holds back. Initialise with zeros. */
typedef struct hil_normalizer_state {
    struct hil_normal_hold {
        hil_text held;
        hil_finder finder;
        bool started; /* PREPEND and STRIP: there was text before */
    } holds[HIL_NORMAL_MAX];
    hil_text scratch[HIL_NORMAL_MAX];
} hil_normalizer_state;

void hil_normalizer_state_free(hil_normalizer_state *state);

/* Takes a fragment of valid UTF-8; appends the normalized text that later ones cannot change. */
hil_status hil_normalizer_add(const hil_normalizer *normalizer, hil_normalizer_state *state,
                              const char *text, size_t size, hil_text *out);
/* Appends the rest of the text and prepares the state for the next one. */
hil_status hil_normalizer_end(const hil_normalizer *normalizer, hil_normalizer_state *state,
                              hil_text *out);

#endif
