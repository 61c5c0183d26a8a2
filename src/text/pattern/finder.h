/* finder.h - searches text that arrives in fragments for the matches of a regular expression. */
#ifndef HIL_TEXT_PATTERN_FINDER_H
#define HIL_TEXT_PATTERN_FINDER_H

#include "text/pattern/pattern.h"

typedef enum hil_found { HIL_FOUND_GAP, HIL_FOUND_MATCH } hil_found;

/* Takes part of a match, or of the text between two matches. `ended`: the last part of it, which
   may be empty. The text is valid during the call. */
typedef struct hil_finder_sink {
    hil_status (*take)(void *context, hil_found found, const char *text, size_t size, bool ended);
    void *context;
} hil_finder_sink;

/* The search of one text. Owns the text that it holds back. Initialise with zeros. */
typedef struct hil_finder {
    hil_text held;  /* the text from the beginning of the candidate on */
    size_t scanned; /* bytes of `held` that the expression has seen */
    size_t matched; /* bytes of `held` that are a match, unless a longer one is found; 0: none */
    uint32_t state;
    bool open; /* part of the candidate, a long match, was passed on */
    bool gap;  /* part of a gap was passed on, but not its end */
} hil_finder;

/* Takes a fragment of valid UTF-8; with `last`, the text ends after it. Passes on what later text
   cannot change: what it holds is shorter than the longest beginning of a match that is none. */
hil_status hil_finder_add(hil_finder *finder, const hil_pattern *regex, const char *text,
                          size_t size, bool last, const hil_finder_sink *sink);
/* Discards the unfinished text; keeps its memory. */
void hil_finder_reset(hil_finder *finder);
void hil_finder_free(hil_finder *finder);

#endif
