/* json_pull.h - reading large JSON values piece by piece, without building them in memory. */
#ifndef HIL_BASE_JSON_PULL_H
#define HIL_BASE_JSON_PULL_H

#include "base/text.h"

/* A position in JSON text, which it borrows; `what` names the source in errors. */
typedef struct hil_json_pull {
    const char *text;
    size_t size, at;
    const char *what;
} hil_json_pull;

/* Enters an object ('{') or an array ('['). *more: it has a first element. */
hil_status hil_json_pull_enter(hil_json_pull *pull, char bracket, bool *more);
/* Advances to the next element of the object or array that `bracket` opened; exits it after the
   last. */
hil_status hil_json_pull_next(hil_json_pull *pull, char bracket, bool *more);
/* The number of elements of the array at the position, which stays. */
hil_status hil_json_pull_count(hil_json_pull pull, size_t *count);
/* Replaces `out` by an unescaped string. NUL characters are refused. */
hil_status hil_json_pull_string(hil_json_pull *pull, hil_text *out);
/* The key of a member; also skips the colon. */
hil_status hil_json_pull_key(hil_json_pull *pull, hil_text *out);
/* A whole number without fraction or exponent. */
hil_status hil_json_pull_int(hil_json_pull *pull, int64_t *out);
/* The character that the next value begins with, or 0 at the end. */
char hil_json_pull_peek(hil_json_pull *pull);
/* Skips one value: finds its end without checking its contents. */
hil_status hil_json_pull_skip(hil_json_pull *pull);

#endif
