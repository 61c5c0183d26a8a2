/* arrow.h - the rows of an Arrow file as JSON objects. */
#ifndef HIL_FORMAT_ARROW_ARROW_H
#define HIL_FORMAT_ARROW_ARROW_H

#include "format/row_source.h"

/* A stream of messages, as `datasets` writes it, or the same within a file that begins with
   "ARROW1". Owns the descriptor of its file, the description of one batch of rows and a piece of
   each column that is read. Used by one thread at a time. Nothing in the file is trusted; an error
   names file and column. */
typedef struct hil_arrow hil_arrow;

hil_status hil_arrow_open(hil_arrow **out, const char *path);
/* The same from memory, which is borrowed until close; `what` names the source in errors. */
hil_status hil_arrow_parse(hil_arrow **out, const char *bytes, size_t size, const char *what);
void hil_arrow_close(hil_arrow *arrow);

/* What is refused, and what a row is, is as for Parquet files (format/parquet/parquet.h). */
HIL_ROW_SOURCE_CALLS(arrow);

#endif
