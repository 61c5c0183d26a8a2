/* separated.h - tables as text: commas or tabs between fields, the names of columns in the first
 * line. */
#ifndef HIL_DATA_SEPARATED_H
#define HIL_DATA_SEPARATED_H

#include "format/row_source.h"

/* Owns its input and one row. Fields are as in RFC 4180: one that begins with a quote goes to the
   next single quote, over delimiters and lines. Rows end with LF, CR or both; empty lines are no
   rows. Nothing is trusted; an error names file and line. */
typedef struct hil_separated hil_separated;

/* The suffix decides whether the file is decompressed, and whether tabs are the delimiter. */
hil_status hil_separated_open(hil_separated **out, const char *path);
/* From memory, which is borrowed until close and read in pieces of `piece` bytes; `what` names the
   source in errors. */
typedef struct hil_separated_text {
    const char *bytes;
    size_t size, piece;
    const char *what;
    char delimiter;
} hil_separated_text;
hil_status hil_separated_parse(hil_separated **out, const hil_separated_text *text);
void hil_separated_close(hil_separated *table);

/* The name of a column; NULL: no more. *at is 0 for the first, and then goes to the next. */
const char *hil_separated_key(const hil_separated *table, size_t *at);
/* Chooses the columns that are read, before the first row; keys that the file does not have are
   left out. A row may hold `row_max` bytes. */
hil_status hil_separated_select(hil_separated *table, const char *const *keys, size_t count,
                                size_t row_max);
/* The next row, with a string for each chosen column. The caller releases it with json_decref; NULL
   after the last. Not to be called again after a failure. */
hil_status hil_separated_next(hil_separated *table, json_t **row);
/* The line where the last row begins, and the share of the file that was read. */
int64_t hil_separated_number(const hil_separated *table);
double hil_separated_done(const hil_separated *table);

extern const hil_row_source hil_separated_row_source;

#endif
