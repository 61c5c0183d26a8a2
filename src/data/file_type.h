/* file_type.h - kind and compression of a data file, by the suffix of its name. */
#ifndef HIL_DATA_FILE_TYPE_H
#define HIL_DATA_FILE_TYPE_H

#include "base/fail.h"

typedef enum hil_data_kind {
    HIL_DATA_TEXT,
    HIL_DATA_JSONL,
    HIL_DATA_JSON, /* one array of records, or records in a row */
    HIL_DATA_CSV,
    HIL_DATA_TSV,
    HIL_DATA_PARQUET,
    HIL_DATA_ARROW,
    HIL_DATA_TOKENS
} hil_data_kind;

typedef enum hil_compression { HIL_COMPRESSION_NONE, HIL_GZIP, HIL_ZSTD } hil_compression;

typedef struct hil_file_type {
    hil_data_kind kind;
    hil_compression compression;
} hil_file_type;

/* Ignores case. A name without a known suffix is text; suffixes of other formats (.xlsx,
   .safetensors, ...) are refused with advice on how to convert them. */
hil_status hil_file_type_read(hil_file_type *type, const char *path);
/* Whether files of the kind have rows in columns with names. */
bool hil_file_type_is_table(hil_data_kind kind);
/* Whether hil_file_type_read refuses the suffix as that of another format. */
bool hil_file_type_refused(const char *path);
/* Whether files with this suffix are taken from folders; .json and .csv are not, because folders of
   data have descriptions with such names. */
bool hil_file_type_known(const char *path);

/* Advice for tables; `read` is a call of pandas. */
#define HIL_DATA_TO_JSONL(read)                                                                    \
    "make JSONL of its columns \"text\", or \"prompt\" and \"completion\": python3 -c \"import "   \
    "pandas; pandas." read ".to_json('FILE.jsonl', orient='records', lines=True)\""

#endif
