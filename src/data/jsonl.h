/* jsonl.h - records of JSONL that arrives in fragments. */
#ifndef HIL_DATA_JSONL_H
#define HIL_DATA_JSONL_H

#include "base/text.h"
#include "data/record.h"

/* Gets the record of line `line`, which is valid during the call. */
typedef hil_status hil_jsonl_take(void *context, const hil_record *record, int64_t line);

#define HIL_JSONL_LINE_MAX ((size_t)1 << 30)

/* Set the first five fields, the rest to zeros. Owns `partial`, a line that has not ended yet. */
typedef struct hil_jsonl {
    const char *path; /* in errors */
    size_t line_max;
    hil_jsonl_take *take;
    void *context;
    hil_record_rules rules;
    int64_t line;
    hil_text partial;
} hil_jsonl;

/* Calls `take` for each line that ends here; skips blank lines. An error names path and line;
   after one, only free `jsonl`. */
hil_status hil_jsonl_add(hil_jsonl *jsonl, const char *bytes, size_t size);
/* Takes the last line if it has no newline. */
hil_status hil_jsonl_end(hil_jsonl *jsonl);
void hil_jsonl_free(hil_jsonl *jsonl);

#endif
