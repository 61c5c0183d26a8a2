/* parquet_encoding.h - numbers and texts of a Parquet page, one after the other. */
#ifndef HIL_FORMAT_PARQUET_PARQUET_ENCODING_H
#define HIL_FORMAT_PARQUET_PARQUET_ENCODING_H

#include "base/fail.h"

/* Physical types, with the numbers of the format. */
typedef enum hil_parquet_type {
    HIL_PARQUET_BOOLEAN = 0,
    HIL_PARQUET_INT32 = 1,
    HIL_PARQUET_INT64 = 2,
    HIL_PARQUET_INT96 = 3,
    HIL_PARQUET_FLOAT = 4,
    HIL_PARQUET_DOUBLE = 5,
    HIL_PARQUET_BYTES = 6,
    HIL_PARQUET_FIXED = 7,
} hil_parquet_type;

typedef enum hil_parquet_encoding {
    HIL_PARQUET_PLAIN = 0,
    HIL_PARQUET_PLAIN_DICTIONARY = 2,
    HIL_PARQUET_RLE = 3,
    HIL_PARQUET_BIT_PACKED = 4,
    HIL_PARQUET_DELTA_PACKED = 5,
    HIL_PARQUET_DELTA_LENGTHS = 6,
    HIL_PARQUET_DELTA_BYTES = 7,
    HIL_PARQUET_RLE_DICTIONARY = 8,
    HIL_PARQUET_STREAM_SPLIT = 9,
} hil_parquet_encoding;

/* Unsigned numbers of `width` bits: runs of one value, and packed ones (RLE). Borrows its bytes. */
typedef struct hil_parquet_runs {
    const unsigned char *at, *end;
    unsigned width;
    uint64_t left; /* of the run */
    uint32_t value;
    bool packed;
    const unsigned char *bits; /* of a packed run */
    uint64_t bit;
} hil_parquet_runs;

/* `width` is at most 32; with 0 all numbers are 0, and no bytes are read. */
void hil_parquet_runs_begin(hil_parquet_runs *runs, const unsigned char *bytes, size_t size,
                            unsigned width);
/* False: damaged. */
bool hil_parquet_runs_next(hil_parquet_runs *runs, uint32_t *value);

/* Whole numbers as packed differences (DELTA_BINARY_PACKED). Borrows its bytes. */
typedef struct hil_parquet_deltas {
    const unsigned char *at, *end;
    uint64_t block_parts, part_size; /* miniblocks in a block, numbers in a miniblock */
    uint64_t left;                   /* numbers to come */
    bool first;                      /* the next one is in the header */
    uint64_t value, least;
    const unsigned char *widths, *bits;
    uint64_t part, part_left, bit;
} hil_parquet_deltas;

/* What a dictionary page holds. */
typedef struct hil_parquet_dictionary {
    unsigned char *bytes; /* as PLAIN values */
    size_t room;
    uint32_t *start; /* of texts: where the length of each is */
    size_t start_room;
    size_t count;
} hil_parquet_dictionary;

/* One value; which member is set follows from the type. Truth is an integer. */
typedef struct hil_parquet_value {
    int64_t integer;
    double real;
    const char *bytes; /* until the next value or page */
    size_t size;
} hil_parquet_value;

/* The values of a page. Borrows the page and the dictionary. */
typedef struct hil_parquet_values {
    hil_parquet_type type;
    hil_parquet_encoding encoding;
    const unsigned char *at, *end;
    uint64_t bit;              /* of truths */
    hil_parquet_runs runs;     /* places in the dictionary, or truths */
    hil_parquet_deltas deltas; /* numbers, lengths, or lengths of prefixes */
    hil_parquet_deltas rest;   /* lengths of what follows the prefixes */
    char *before;              /* the text that prefixes refer to */
    size_t before_size;
    const hil_parquet_dictionary *dictionary;
} hil_parquet_values;

const char *hil_parquet_encoding_name(int64_t encoding);
bool hil_parquet_encoding_fits(hil_parquet_type type, hil_parquet_encoding encoding);

/* Set type, encoding, dictionary (with those encodings), and `before` (with DELTA_BYTE_ARRAY: room
   for `size` bytes). False: damaged. */
bool hil_parquet_values_begin(hil_parquet_values *values, const unsigned char *bytes, size_t size);
bool hil_parquet_values_next(hil_parquet_values *values, hil_parquet_value *value);

/* Bytes of a number in PLAIN encoding; 0: not a number of whole bytes. */
size_t hil_parquet_type_size(hil_parquet_type type);
uint32_t hil_parquet_load32(const unsigned char *at); /* little-endian */

#endif
