/* name.h - what the name of a data file says: its kind and its compression. */
#ifndef HIL_DATA_NAME_H
#define HIL_DATA_NAME_H

#include "base/fail.h"

typedef enum hil_data_kind { HIL_DATA_TEXT, HIL_DATA_JSONL, HIL_DATA_TOKENS } hil_data_kind;

typedef enum hil_compression { HIL_COMPRESSION_NONE, HIL_GZIP, HIL_ZSTD } hil_compression;

typedef struct hil_data_name {
    hil_data_kind kind;
    hil_compression compression;
} hil_data_name;

/* Upper and lower case are the same. A name without a suffix known here is text; names of other
   formats (.csv, .json, .parquet, ...) are refused with what to do about them. */
hil_status hil_data_name_read(hil_data_name *name, const char *path);
/* Whether it is the name of such another format. */
bool hil_data_name_refused(const char *path);
/* Whether the suffix is that of a data file, so that folders are searched for it. */
bool hil_data_name_known(const char *path);

/* Advice for tables: `read` is a call of pandas. */
#define HIL_DATA_TO_JSONL(read)                                                                    \
    "make JSONL of its columns \"text\", or \"prompt\" and \"completion\": python3 -c \"import "   \
    "pandas; pandas." read ".to_json('FILE.jsonl', orient='records', lines=True)\""

#endif
