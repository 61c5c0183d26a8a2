/* name.h - kind and compression of a data file, by the suffix of its name. */
#ifndef HIL_DATA_NAME_H
#define HIL_DATA_NAME_H

#include "base/fail.h"

typedef enum hil_data_kind { HIL_DATA_TEXT, HIL_DATA_JSONL, HIL_DATA_TOKENS } hil_data_kind;

typedef enum hil_compression { HIL_COMPRESSION_NONE, HIL_GZIP, HIL_ZSTD } hil_compression;

typedef struct hil_data_name {
    hil_data_kind kind;
    hil_compression compression;
} hil_data_name;

/* Ignores case. A name without a known suffix is text; suffixes of other formats (.csv, .json,
   .parquet, ...) are refused with advice on how to convert them. */
hil_status hil_data_name_read(hil_data_name *name, const char *path);
/* Whether hil_data_name_read refuses the suffix as that of another format. */
bool hil_data_name_refused(const char *path);
/* Whether files with this suffix are taken from folders. */
bool hil_data_name_known(const char *path);

/* Advice for tables; `read` is a call of pandas. */
#define HIL_DATA_TO_JSONL(read)                                                                    \
    "make JSONL of its columns \"text\", or \"prompt\" and \"completion\": python3 -c \"import "   \
    "pandas; pandas." read ".to_json('FILE.jsonl', orient='records', lines=True)\""

#endif
