/* template_strings.h - operations on text that methods and filters share. */
#ifndef HIL_TEXT_TEMPLATE_STRINGS_H
#define HIL_TEXT_TEMPLATE_STRINGS_H

#include "text/template_value.h"

typedef enum hil_side { HIL_SIDE_LEFT = 1, HIL_SIDE_RIGHT = 2, HIL_SIDE_BOTH = 3 } hil_side;
/* Strips the characters of `set` (NULL: white space) from both sides. */
hil_status hil_chars_strip(hil_render *r, const hil_chars *text, const hil_chars *set,
                           hil_side side, hil_variant *out);

typedef enum hil_case {
    HIL_CASE_UPPER,
    HIL_CASE_LOWER,
    HIL_CASE_TITLE,      /* the first cased character of every word */
    HIL_CASE_CAPITALIZE, /* the first character of all */
    HIL_CASE_SWAP,
    HIL_CASE_FOLD,
} hil_case;
hil_status hil_chars_case(hil_render *r, const hil_chars *text, hil_case kind, hil_variant *out);

/* Replaces the first `most` occurrences (negative: all). */
hil_status hil_chars_replace(hil_render *r, const hil_chars *text, const hil_chars *from,
                             const hil_chars *to, int64_t most, hil_variant *out);
/* Splits into lines, without their ends unless `keep`. */
hil_status hil_chars_lines(hil_render *r, const hil_chars *text, bool keep, hil_items **out);
/* Splits at `separator` (NULL: white space), at most `most` times (negative: any number), from the
   right if `backward`. */
hil_status hil_chars_split(hil_render *r, const hil_chars *text, const hil_chars *separator,
                           int64_t most, bool backward, hil_items **out);
/* Bytes [begin, end) of a text as a text. */
hil_status hil_chars_part(hil_render *r, const hil_chars *text, size_t begin, size_t end,
                          hil_variant *out);

#endif
