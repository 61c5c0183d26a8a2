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

/* A row has a string for each chosen column; its number is that of the line where it begins. */
HIL_ROW_SOURCE_CALLS(separated);

#endif
