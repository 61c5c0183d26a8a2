/* template.h - executes the chat template of a model: the language Jinja, as `transformers` runs
 * it.
 *
 * A template is untrusted code. It sees the variables it is given and, of the machine, only the
 * date; steps, memory and depth are limited. */
#ifndef HIL_TEXT_TEMPLATE_H
#define HIL_TEXT_TEMPLATE_H

#include "base/text.h"

#include <jansson.h>

/* Immutable once parsed: several threads may render it at the same time. */
typedef struct hil_jinja hil_jinja;

typedef struct hil_jinja_limits {
    uint64_t steps; /* evaluations; copying text counts by its length */
    size_t bytes;   /* memory of values and output together */
    int depth;      /* of nested expressions, blocks and calls */
    int64_t now;    /* the time of strftime_now, in seconds since 1970; 0: the clock */
} hil_jinja_limits;

hil_jinja_limits hil_jinja_default_limits(void);

/* Bytes [begin, end) of the rendered text. */
typedef struct hil_byte_span {
    size_t begin, end;
} hil_byte_span;

/* Owns its memory; start with {0}. */
typedef struct hil_rendering {
    hil_text text;
    hil_byte_span *spans; /* written by {% generation %} blocks, in order */
    size_t span_count, span_capacity;
    /* A {% generation %} block wrote into a macro or a variable, not into the text: `spans` then
       lacks what the model wrote there. */
    bool spans_lost;
} hil_rendering;

/* `text` is UTF-8 and copied; `what` names it in errors. */
hil_status hil_jinja_parse(hil_jinja **out, const char *text, size_t size, const char *what);
void hil_jinja_destroy(hil_jinja *parsed);
/* Whether it has a {% generation %} block. */
bool hil_jinja_marks_generation(const hil_jinja *parsed);

/* Renders with `variables`, a JSON object; `limits` may be NULL. Appends to *out. A template's own
   raise_exception fails with its message. */
hil_status hil_jinja_render(const hil_jinja *parsed, const json_t *variables,
                            const hil_jinja_limits *limits, hil_rendering *out);
void hil_rendering_free(hil_rendering *rendering);

#endif
