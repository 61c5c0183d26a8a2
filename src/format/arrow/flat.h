/* flat.h - tables of the FlatBuffers format, whose positions and lengths are all checked. */
#ifndef HIL_FORMAT_ARROW_FLAT_H
#define HIL_FORMAT_ARROW_FLAT_H

#include "base/fail.h"

/* Borrows the bytes. Positions are offsets in them; 0 is none, which all calls accept. */
typedef struct hil_flat {
    const unsigned char *bytes;
    size_t size;
    bool bad; /* something lay outside of the bytes; what was returned since then means nothing */
} hil_flat;

/* The table that the buffer begins with. */
size_t hil_flat_root(hil_flat *flat);
/* Fields of a table, by their number in its schema. */
int64_t hil_flat_integer(hil_flat *flat, size_t table, int field, int bytes, int64_t missing);
size_t hil_flat_table(hil_flat *flat, size_t table, int field);
/* The text is not followed by a NUL. NULL: none. */
const char *hil_flat_text(hil_flat *flat, size_t table, int field, size_t *size);
/* The first element of a vector of `count` elements of so many bytes each. */
size_t hil_flat_vector(hil_flat *flat, size_t table, int field, size_t element, size_t *count);
/* The table at element `i` of a vector of tables. */
size_t hil_flat_item(hil_flat *flat, size_t vector, size_t i);
/* A number of 8 bytes at a position. */
int64_t hil_flat_long(hil_flat *flat, size_t at);

#endif
