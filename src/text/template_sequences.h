/* template_sequences.h - reads attributes of list items, for filters. */
#ifndef HIL_TEXT_TEMPLATE_SEQUENCES_H
#define HIL_TEXT_TEMPLATE_SEQUENCES_H

#include "text/template_value.h"

/* Reads "a.b.0" of an item, or the item itself. */
typedef struct hil_getter {
    hil_items *parts;     /* NULL: the item itself */
    hil_variant standard; /* for parts that are undefined; ABSENT: none */
    bool lower;           /* texts in lower case */
} hil_getter;

/* `attribute` is text, a number, or ABSENT. */
hil_status hil_getter_open(hil_render *r, hil_variant attribute, hil_getter *out);
hil_status hil_getter_get(hil_render *r, const hil_getter *getter, hil_variant item,
                          hil_variant *out);

#endif
