/* jsonl.h - records of JSONL, or of a JSON array, that arrive in fragments. */
#ifndef HIL_DATA_JSONL_H
#define HIL_DATA_JSONL_H

#include "base/text.h"
#include "data/record.h"

/* Gets the record that begins in line `line`; it is valid during the call. */
typedef hil_status hil_jsonl_take(void *context, const hil_record *record, int64_t line);

#define HIL_JSONL_LINE_MAX ((size_t)1 << 30)

typedef enum hil_jsonl_layout {
    HIL_JSONL_LINES,  /* a record in each line */
    HIL_JSONL_VALUES, /* one array of records, or records in a row, over any lines */
} hil_jsonl_layout;

/* Where HIL_JSONL_VALUES is, between two bytes. */
typedef struct hil_json_place {
    enum { HIL_JSON_START, HIL_JSON_OPENED, HIL_JSON_COMMA, HIL_JSON_AFTER, HIL_JSON_CLOSED } state;
    bool is_array, in_string, escaped;
    int64_t depth;    /* brackets open in the record; 0: between records */
    int64_t newlines; /* in the record so far */
    int mark;         /* bytes of a byte order mark seen; 3 also if there is none */
} hil_json_place;

/* Set the first six fields, the rest to zeros. Owns `partial`, a record that has not ended yet. */
typedef struct hil_jsonl {
    const char *path; /* in errors */
    size_t line_max;
    hil_jsonl_take *take;
    void *context;
    hil_record_rules rules;
    hil_jsonl_layout layout;
    int64_t line; /* of lines, the last one; of values, where the record begins */
    hil_json_place place;
    hil_text partial;
} hil_jsonl;

/* Calls `take` for each record that ends here; skips blank lines. An error names path and line;
   after one, only free `jsonl`. */
hil_status hil_jsonl_add(hil_jsonl *jsonl, const char *bytes, size_t size);
/* Takes the last line if it has no newline; fails if a record or an array has not ended. */
hil_status hil_jsonl_end(hil_jsonl *jsonl);
void hil_jsonl_free(hil_jsonl *jsonl);

#endif
