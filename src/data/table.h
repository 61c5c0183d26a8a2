/* table.h - the rows of a file with columns as records. */
#ifndef HIL_DATA_TABLE_H
#define HIL_DATA_TABLE_H

#include "data/record.h"

/* Owns the file. */
typedef struct hil_table hil_table;

/* Copies `rules`. Only the columns that records of the format have are read; the names of all
   decide which format that is, if the rules do not. */
hil_status hil_table_open(hil_table **out, const char *path, const hil_record_rules *rules);
void hil_table_close(hil_table *table);

double hil_table_done(const hil_table *table);      /* the share that was read, for progress */
const char *hil_table_unit(const hil_table *table); /* what rows are numbered by */
/* The next row: the record that the same row as a line of JSONL would be, and its number. Valid
   until the next call; NULL after the last. An error names path and row. */
hil_status hil_table_next(hil_table *table, const hil_record **record, int64_t *number);

#endif
