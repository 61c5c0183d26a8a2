/* unicode_tables.h - the generated tables that unicode.c searches. */
#ifndef HIL_TEXT_UNICODE_UNICODE_TABLES_H
#define HIL_TEXT_UNICODE_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Code points first..last have canonical combining class `rank`. */
typedef struct hil_unicode_rank {
    uint32_t first, last, rank;
} hil_unicode_rank;

/* The canonical decomposition of `whole` is a, b; or a alone if b is 0. */
typedef struct hil_unicode_pair {
    uint32_t whole, a, b;
} hil_unicode_pair;

typedef struct hil_unicode_range {
    uint32_t first, last;
} hil_unicode_range;

/* (code point << 8 | flags) wherever the flags change. */
extern const uint32_t hil_unicode_runs[];
/* The run that holds code point 256 * i, and one more at the end. */
extern const uint16_t hil_unicode_blocks[];
/* (code point << 5 | general category) wherever it changes. */
extern const uint32_t hil_unicode_categories[];
extern const size_t hil_unicode_categories_count;
/* Where \w differs from letters, marks, Nd and Pc; Digits from numbers; Punctuation from
   punctuation and the printable ASCII characters that are neither letters nor digits. */
extern const hil_unicode_range hil_unicode_words[];
extern const size_t hil_unicode_words_count;
extern const hil_unicode_range hil_unicode_digits[];
extern const size_t hil_unicode_digits_count;
extern const hil_unicode_range hil_unicode_marks[];
extern const size_t hil_unicode_marks_count;
/* The script Han. */
extern const hil_unicode_range hil_unicode_han[];
extern const size_t hil_unicode_han_count;
extern const hil_unicode_rank hil_unicode_ranks[];
extern const size_t hil_unicode_ranks_count;
/* Sorted by `whole`. */
extern const hil_unicode_pair hil_unicode_splits[];
extern const size_t hil_unicode_splits_count;
/* Sorted by (a, b). */
extern const hil_unicode_pair hil_unicode_joins[];
extern const size_t hil_unicode_joins_count;

#endif
