/* jsonl.h - documents from JSONL that arrives in fragments. */
#ifndef HIL_DATA_JSONL_H
#define HIL_DATA_JSONL_H

#include "base/text.h"

/* A line: {"text": ...}, or {"prompt": ..., "completion": ...}. */
typedef enum hil_record_kind { HIL_RECORD_TEXT, HIL_RECORD_EXAMPLE } hil_record_kind;

/* One document; `text` is the completion of an example. Valid during the call that receives it. */
typedef struct hil_record {
    hil_record_kind kind;
    const char *prompt, *text;
    size_t prompt_size, text_size;
} hil_record;

typedef hil_status hil_record_take(void *context, const hil_record *record);

#define HIL_JSONL_LINE_MAX ((size_t)1 << 30)

/* Set the first four fields, the rest to zeros. Owns `partial`, a line that has not ended yet. */
typedef struct hil_jsonl {
    const char *path; /* in errors */
    size_t line_max;
    hil_record_take *take;
    void *context;
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
