/* unicode_tables.h - the generated tables that unicode.c searches. */
#ifndef HIL_TEXT_UNICODE_UNICODE_TABLES_H
#define HIL_TEXT_UNICODE_UNICODE_TABLES_H

#include <stdbool.h>
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

/* Every `step`th code point of first..last is `shift` more in lower case; only those that Python
   does not know (hil_case_lower). */
typedef struct hil_unicode_lower_run {
    uint32_t first, last, step;
    int32_t shift;
} hil_unicode_lower_run;

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
/* Where accents, and what continues a grapheme, differ from marks. */
extern const hil_unicode_range hil_unicode_accents[];
extern const size_t hil_unicode_accents_count;
extern const hil_unicode_range hil_unicode_extends[];
extern const size_t hil_unicode_extends_count;
extern const hil_unicode_lower_run hil_unicode_lower[];
extern const size_t hil_unicode_lower_count;
/* Compatibility decompositions, sorted: first << 25 | (last - first) << 18 | place << 6 | size << 1
   | moves. They are `size` points of compat_points from `place` on, for each next code point one
   more if `moves`. */
extern const uint64_t hil_unicode_compat[];
extern const size_t hil_unicode_compat_count;
extern const uint32_t hil_unicode_compat_points[];
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

/* Whether a code point is in one of the ranges, which are sorted. */
bool hil_unicode_in(const hil_unicode_range *range, size_t count, uint32_t point);

#endif
