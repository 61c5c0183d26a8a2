/* arrow_row.h - a row of an Arrow file as a JSON object. */
#ifndef HIL_FORMAT_ARROW_ARROW_ROW_H
#define HIL_FORMAT_ARROW_ARROW_ROW_H

#include "format/arrow/arrow_schema.h"

#include <jansson.h>

/* Set the first three fields. Borrows all of it. */
typedef struct hil_arrow_row {
    const hil_arrow_file *file;
    hil_arrow_schema *schema;
    size_t row_max; /* the most bytes of values */
    size_t size;
    int64_t number; /* from 1, for errors */
    const char *column;
} hil_arrow_row;

/* The kept columns of row `index` of the batch. The caller releases it. */
hil_status hil_arrow_row_read(hil_arrow_row *row, int64_t index, json_t **out);

#endif
