/* fragment.h - cuts text into fragments of random length for tests. */
#ifndef HIL_TESTS_TEXT_FRAGMENT_H
#define HIL_TESTS_TEXT_FRAGMENT_H

#include "text/unicode/unicode.h"

/* The end of a fragment that begins at `at`: up to `most` characters; 0: all of them. */
static inline size_t fragment_end(const char *text, size_t size, size_t at, unsigned most)
{
    static unsigned state = 1;
    if (most == 0) return size;
    state = state * 1664525u + 1013904223u;
    for (unsigned left = 1 + (state >> 8) % most; left > 0 && at < size; --left) {
        size_t step;
        hil_utf8_get(text + at, &step);
        at += step;
    }
    return at;
}

#endif
