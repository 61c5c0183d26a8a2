/* regex.h - regular expressions as Python's `re` writes them, for the names of a model's layers.

   Literals, ".", classes, "|", groups, "*", "+", "?", "{m,n}", "^", "$", \d \w \s \b and their
   opposites; bytes, not characters. Look-around and references to groups are refused. */
#ifndef HIL_BASE_REGEX_H
#define HIL_BASE_REGEX_H

#include "base/fail.h"

#include <stdbool.h>

typedef struct hil_regex hil_regex;

/* `what` names the source in errors. A pattern that needs too much memory is refused. */
hil_status hil_regex_create(hil_regex **out, const char *pattern, const char *what);
void hil_regex_destroy(hil_regex *regex);
/* Whether the whole text matches. Takes time in proportion to the text and the pattern. */
bool hil_regex_matches(const hil_regex *regex, const char *text);

#endif
