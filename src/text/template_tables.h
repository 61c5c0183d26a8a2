/* template_tables.h - tables of characters that tools/template_tables.py writes. */
#ifndef HIL_TEXT_TEMPLATE_TABLES_H
#define HIL_TEXT_TEMPLATE_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* Every `step`-th character from `first` to `last`; adding `delta` maps it. */
typedef struct hil_char_span {
    uint32_t first, last;
    int32_t step, delta;
} hil_char_span;

typedef struct hil_char_expansion {
    uint32_t point, to[3]; /* 0 after the last */
} hil_char_expansion;

#define HIL_CHAR_TABLE(name)                                                                       \
    extern const hil_char_span name[];                                                             \
    extern const size_t name##_count
#define HIL_CHAR_EXPANSIONS(name)                                                                  \
    extern const hil_char_expansion name[];                                                        \
    extern const size_t name##_count

HIL_CHAR_TABLE(hil_char_to_upper);
HIL_CHAR_TABLE(hil_char_to_lower);
HIL_CHAR_TABLE(hil_char_to_title);    /* only differences from upper */
HIL_CHAR_TABLE(hil_char_to_casefold); /* only differences from lower */
HIL_CHAR_EXPANSIONS(hil_char_to_upper_several);
HIL_CHAR_EXPANSIONS(hil_char_to_lower_several);
HIL_CHAR_EXPANSIONS(hil_char_to_title_several);
HIL_CHAR_EXPANSIONS(hil_char_to_casefold_several);
HIL_CHAR_TABLE(hil_char_upper_spans);
HIL_CHAR_TABLE(hil_char_lower_spans);
HIL_CHAR_TABLE(hil_char_titled_spans);
HIL_CHAR_TABLE(hil_char_unprintable_spans);

#endif
