/* thrift.h - reads structures of Thrift's compact protocol from memory, as Parquet files have them.
 */
#ifndef HIL_FORMAT_PARQUET_THRIFT_H
#define HIL_FORMAT_PARQUET_THRIFT_H

#include "base/fail.h"

/* Borrows its bytes. After a mistake in them `bad` stays set, numbers are 0, and no more fields and
   elements come, so that it is enough to look at `bad` at the end. */
typedef struct hil_thrift {
    const unsigned char *at, *end;
    bool bad;
    bool cut; /* bad because the bytes end */
} hil_thrift;

typedef enum hil_thrift_type {
    HIL_THRIFT_STOP = 0,
    HIL_THRIFT_TRUE = 1,
    HIL_THRIFT_FALSE = 2,
    HIL_THRIFT_BYTE = 3,
    HIL_THRIFT_I16 = 4,
    HIL_THRIFT_I32 = 5,
    HIL_THRIFT_I64 = 6,
    HIL_THRIFT_DOUBLE = 7,
    HIL_THRIFT_BINARY = 8,
    HIL_THRIFT_LIST = 9,
    HIL_THRIFT_SET = 10,
    HIL_THRIFT_MAP = 11,
    HIL_THRIFT_STRUCT = 12,
} hil_thrift_type;

/* Zero before the first field of a structure. */
typedef struct hil_thrift_field {
    int id;
    hil_thrift_type type;
} hil_thrift_field;

/* Goes to the next field of a structure; false: there is none. The value of each has to be read or
   skipped. */
bool hil_thrift_next(hil_thrift *in, hil_thrift_field *field);

/* Of 8 to 64 bits; a truth is 0 or 1. */
int64_t hil_thrift_integer(hil_thrift *in, const hil_thrift_field *field);
/* Reads a structure: its field i goes to slot[i], others are skipped, and so are those whose slot
   is NULL. */
void hil_thrift_integers(hil_thrift *in, int64_t *const *slot, size_t count);
/* Text or bytes, which stay where they are. */
const char *hil_thrift_bytes(hil_thrift *in, const hil_thrift_field *field, size_t *size);
/* The number of structures in a list, which follow; never more than there are bytes. */
size_t hil_thrift_structures(hil_thrift *in, const hil_thrift_field *field);
/* Whether the value is a structure, whose fields follow. */
bool hil_thrift_enter(hil_thrift *in, const hil_thrift_field *field);
void hil_thrift_skip(hil_thrift *in, const hil_thrift_field *field);

#endif
