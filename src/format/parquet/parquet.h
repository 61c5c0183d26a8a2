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
/* The name of a column, or of a group of columns, that rows have; NULL: no more. *at is 0 for the
   first, and then goes to the next. */
const char *hil_parquet_key(const hil_parquet *file, size_t *at);

/* Chooses what is read, before the first row; keys that rows do not have are left out, no other
   column is looked at. Fails if rows have none of them. Refuses maps, and what is no value of JSON;
   within groups, bytes, dates and other such columns are left out instead. A row may hold `row_max`
   bytes of values. */
hil_status hil_parquet_select(hil_parquet *file, const char *const *keys, size_t count,
                              size_t row_max);
/* The next row, which the caller releases with json_decref; NULL after the last. It is what
   pandas.DataFrame.to_json writes: null is null, and so are numbers that are not finite. Not to be
   called again after a failure. */
hil_status hil_parquet_next(hil_parquet *file, json_t **row);
/* The number of the last row, from 1, and the share of all rows that were read. */
int64_t hil_parquet_number(const hil_parquet *file);
double hil_parquet_done(const hil_parquet *file);

extern const hil_row_source hil_parquet_row_source;

#endif
