/* parquet_page.h - the header before each page of a Parquet file. */
#ifndef HIL_FORMAT_PARQUET_PARQUET_PAGE_H
#define HIL_FORMAT_PARQUET_PARQUET_PAGE_H

#include "format/parquet/thrift.h"

/* With the numbers of the format. */
typedef enum hil_parquet_page_kind {
    HIL_PARQUET_PAGE_DATA = 0,
    HIL_PARQUET_PAGE_INDEX = 1,
    HIL_PARQUET_PAGE_DICTIONARY = 2,
    HIL_PARQUET_PAGE_DATA_V2 = 3,
} hil_parquet_page_kind;

/* As the file has it: nothing is checked. Absent numbers are -1. */
typedef struct hil_parquet_page {
    int64_t kind, size, packed_size, crc, values, encoding, define_encoding, repeat_encoding;
    int64_t define_bytes, repeat_bytes, is_packed; /* of version 2 */
    bool has_crc;
} hil_parquet_page;

/* `in` is then behind the header, or bad. */
void hil_parquet_page_read(hil_parquet_page *page, hil_thrift *in);

#endif
