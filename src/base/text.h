/* text.h - growable strings, paths, edit distance, human-readable numbers. */
#ifndef HIL_BASE_TEXT_H
#define HIL_BASE_TEXT_H

#include "base/alloc.h"

/* Owns `data`, which is always followed by a NUL byte once anything was added. */
typedef struct hil_text {
    char *data;
    size_t size;
    size_t capacity;
} hil_text;

hil_status hil_text_add(hil_text *text, const void *bytes, size_t size);
hil_status hil_text_print(hil_text *text, const char *format, ...) HIL_PRINTF(2, 3);
/* Appends `string`, which is UTF-8, as a JSON string with its quotes. */
hil_status hil_text_quote(hil_text *text, const char *string);
void hil_text_free(hil_text *text);

bool hil_text_ends_with(const char *text, const char *end);

/* "dir/name" into a fixed buffer; fails when it does not fit. */
#define HIL_PATH_MAX 4096
hil_status hil_path_join(char out[HIL_PATH_MAX], const char *dir, const char *name);

/* Whether `name` is a plain file name: no '/', not empty, "." or "..". */
bool hil_path_is_plain(const char *name);

/* The candidate most similar to `word` (a few letters apart, or one is a prefix of the other), or
   NULL. */
const char *hil_text_nearest(const char *word, const char *const *candidates, size_t count);

/* A number of things as "124.4M" into `out`. Returns out. */
const char *hil_text_count(char out[32], uint64_t count);
/* Bytes as "12.0 GiB" into `out`. Returns out. */
const char *hil_text_bytes(char out[32], uint64_t bytes);
/* A duration as "17.5 h", "3 min 20 s", "0.42 s" or "1.4 ms" into `out`. Returns out. */
const char *hil_text_seconds(char out[32], double seconds);
/* The shortest digits that parse to `real` again, as Python prints them. */
void hil_text_real(char out[32], double real);

#endif
