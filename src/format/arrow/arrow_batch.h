/* arrow_batch.h - finds the buffers of the columns in a batch of rows, or of a dictionary. */
#ifndef HIL_FORMAT_ARROW_ARROW_BATCH_H
#define HIL_FORMAT_ARROW_ARROW_BATCH_H

#include "format/arrow/arrow_schema.h"

/* A message: its description, and where its bytes are in the file. Borrows all of it. */
typedef struct hil_arrow_batch {
    const hil_arrow_file *file;
    hil_flat *flat;
    size_t table; /* of the batch */
    uint64_t body, body_size;
} hil_arrow_batch;

/* Sets length and buffers of the nodes in [begin, end), which are all that the batch holds. Only
   those of kept nodes are looked at. */
hil_status hil_arrow_batch_load(const hil_arrow_batch *batch, hil_arrow_schema *schema,
                                size_t begin, size_t end);
/* The number of its rows. */
hil_status hil_arrow_batch_rows(const hil_arrow_batch *batch, int64_t *rows);

#endif
