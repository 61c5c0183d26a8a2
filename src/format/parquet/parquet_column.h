/* parquet_column.h - the values of one column in the order of the file, a page at a time. */
#ifndef HIL_FORMAT_PARQUET_PARQUET_COLUMN_H
#define HIL_FORMAT_PARQUET_PARQUET_COLUMN_H

#include "base/text.h"
#include "format/parquet/parquet_codec.h"
#include "format/parquet/parquet_encoding.h"
#include "format/parquet/parquet_schema.h"
#include "io/reader.h"

/* Where the bytes of a file come from. Owns the reader. */
typedef struct hil_parquet_source {
    hil_reader *reader; /* NULL: memory, which is borrowed */
    const char *memory;
    uint64_t size;
    char *what; /* in errors */
} hil_parquet_source;

/* Reads bytes that lie in the file; fails if it has become shorter. */
hil_status hil_parquet_source_read(const hil_parquet_source *source, uint64_t offset, void *bytes,
                                   size_t size);

/* The part of a column in one group of rows. */
typedef struct hil_parquet_chunk {
    int64_t codec, type, values;
    int64_t data_at, dictionary_at, bytes; /* dictionary_at: 0 or less: none */
} hil_parquet_chunk;

/* One that is read. Holds one page, its dictionary, and the level pair at which it stands. Owns its
   buffers and `path`, borrows the source and the node. */
typedef struct hil_parquet_column {
    const hil_parquet_source *source;
    const hil_parquet_node *node; /* a leaf */
    char *path;                   /* names in the schema, with dots */
    hil_parquet_codec codec;
    uint64_t at, end;    /* the pages of the chunk that are still to be read */
    int64_t values_left; /* in these pages */
    bool has_dictionary;
    hil_parquet_dictionary dictionary;
    unsigned char *packed, *page; /* as in the file, and decompressed */
    size_t packed_room, page_room;
    char *before; /* for prefixes of texts */
    size_t before_room;
    int64_t page_left; /* pairs of levels that are still to be read */
    hil_parquet_runs repeats, defines;
    hil_parquet_values content;
    bool is_loaded; /* the pair below is the next one */
    bool is_over;   /* there is none */
    uint32_t repeated, defined;
} hil_parquet_column;

/* Begins with a chunk, whose numbers need not be right. */
hil_status hil_parquet_column_begin(hil_parquet_column *column, const hil_parquet_chunk *chunk);
/* Makes the next pair of levels known; `repeated` is 0 at the end. */
hil_status hil_parquet_column_load(hil_parquet_column *column);
/* The value of the pair, which must be defined in full; valid until the next call. */
hil_status hil_parquet_column_value(hil_parquet_column *column, hil_parquet_value *value);
void hil_parquet_column_free(hil_parquet_column *column);

/* An error that names file and column. */
hil_status hil_parquet_column_damaged(const hil_parquet_column *column, const char *why);

#endif
