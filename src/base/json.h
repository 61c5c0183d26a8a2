/* json.h - strict parsing of JSON text, and typed access with errors that name the source. */
#ifndef HIL_BASE_JSON_H
#define HIL_BASE_JSON_H

#include "base/fail.h"

#include <jansson.h>

/* Parses one JSON value that fills `size` bytes (white space around it is fine). Duplicate keys,
   NUL characters and invalid UTF-8 are refused. If one integer exceeds 64 bits
   (tokenizer_config.json of many models has one), all are read as reals. `what` names the source in
   errors. The caller releases *out with json_decref. */
hil_status hil_json_parse(const char *text, size_t size, const char *what, json_t **out);

/* Typed members of `object`. A missing or null member leaves *out unchanged; a member of another
   type is an error. `what` names the source in errors. Results are borrowed from `object`. */
hil_status hil_json_int(const json_t *object, const char *key, const char *what, int64_t *out);
hil_status hil_json_real(const json_t *object, const char *key, const char *what, double *out);
hil_status hil_json_bool(const json_t *object, const char *key, const char *what, bool *out);
hil_status hil_json_string(const json_t *object, const char *key, const char *what,
                           const char **out);

/* A new list of copied strings; NULL: out of memory. */
json_t *hil_json_words(const char *const *word, size_t count);

#endif
