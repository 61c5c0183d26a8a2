/* normalize.h - the normalizer of a tokenizer.json, on text that arrives in fragments. */
#ifndef HIL_TEXT_NORMALIZE_H
#define HIL_TEXT_NORMALIZE_H

#include "base/text.h"

#include <jansson.h>

typedef enum hil_normal_kind {
    HIL_NORMAL_NFC,
    HIL_NORMAL_PREPEND,
    HIL_NORMAL_REPLACE
} hil_normal_kind;

#define HIL_NORMAL_MAX 8

/* Owns its texts. */
typedef struct hil_normalizer {
    size_t count;
    struct hil_normal_step {
        hil_normal_kind kind;
        hil_text pattern; /* REPLACE: what is replaced; not empty */
        hil_text content; /* PREPEND and REPLACE */
    } steps[HIL_NORMAL_MAX];
} hil_normalizer;

/* `value` may be NULL or null: no normalizer. */
hil_status hil_normalizer_load(hil_normalizer *normalizer, const json_t *value, const char *what);
void hil_normalizer_free(hil_normalizer *normalizer);

/* One text under way. Owns what is held back. */
typedef struct hil_normal_state {
    struct hil_normal_hold {
        hil_text held;
        bool started;
    } holds[HIL_NORMAL_MAX];
    hil_text scratch[HIL_NORMAL_MAX];
} hil_normal_state;

void hil_normal_state_free(hil_normal_state *state);

/* Appends to `out` what is certain after this fragment of valid UTF-8. */
hil_status hil_normalizer_add(const hil_normalizer *normalizer, hil_normal_state *state,
                              const char *text, size_t size, hil_text *out);
/* Ends the text; the state is ready for the next one. */
hil_status hil_normalizer_end(const hil_normalizer *normalizer, hil_normal_state *state,
                              hil_text *out);

#endif
