/* parquet_row.h - puts rows together from columns. */
#ifndef HIL_FORMAT_PARQUET_PARQUET_ROW_H
#define HIL_FORMAT_PARQUET_PARQUET_ROW_H

#include "format/parquet/parquet_column.h"

#include <jansson.h>

/* Borrows all but the numbers. */
typedef struct hil_parquet_row {
    const hil_parquet_schema *schema;
    hil_parquet_column *column;
    size_t row_max, size; /* most bytes of a row, and those so far */
    int64_t number;       /* from 1, in errors */
} hil_parquet_row;

/* The next row: an object of the nodes below the root that have columns. */
hil_status hil_parquet_row_read(hil_parquet_row *row, json_t **out);

#endif
