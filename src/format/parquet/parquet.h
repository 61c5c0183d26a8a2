/* parquet.h - the rows of a Parquet file as JSON objects. */
#ifndef HIL_FORMAT_PARQUET_PARQUET_H
#define HIL_FORMAT_PARQUET_PARQUET_H

#include "format/row_source.h"

/* Owns the descriptor of its file, the file's footer, and a page of each column that is read. Used
   by one thread at a time. Nothing in the file is trusted; an error names file and column. */
typedef struct hil_parquet hil_parquet;

hil_status hil_parquet_open(hil_parquet **out, const char *path);
/* The same from memory, which is borrowed until close; `what` names the source in errors. */
hil_status hil_parquet_parse(hil_parquet **out, const char *bytes, size_t size, const char *what);
void hil_parquet_close(hil_parquet *file);

/* The number of rows by the footer, which some writers leave at 0. */
int64_t hil_parquet_rows(const hil_parquet *file);
/* The columns that have names are those and groups of those. Refuses maps, and what is no value of
   JSON; within groups, bytes, dates and other such columns are left out instead. A row is what
   pandas.DataFrame.to_json writes: null is null, and so are numbers that are not finite. */
HIL_ROW_SOURCE_CALLS(parquet);

#endif
