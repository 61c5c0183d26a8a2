/* history.h - what a run has written of itself: its description and the curves of its metrics. */
#ifndef HIL_REPORT_HISTORY_H
#define HIL_REPORT_HISTORY_H

#include "report/series.h"

#include "base/json.h"
#include "base/text.h"

enum { HIL_HISTORY_SAMPLES = 50 };

/* Owns its memory. Zeroed: empty. */
typedef struct hil_history {
    char *name;      /* of the run: its folder */
    json_t *about;   /* the object of run.json; NULL: none */
    json_t *samples; /* of text: the newest HIL_HISTORY_SAMPLES lines; NULL: none */
    hil_series *series;
    size_t count, capacity;
    int64_t step; /* the latest */
} hil_history;

/* Parses a line of metrics.jsonl; `what` names it in errors. The caller releases *out with
   json_decref. */
hil_status hil_history_parse(const char *line, size_t size, const char *what, json_t **out,
                             int64_t *step);
/* Calls `visit` with each number of such an object but its step, until a call fails. A number of an
   inner object is called "outer.inner". */
typedef hil_status hil_history_number(void *context, const char *name, double value);
hil_status hil_history_numbers(json_t *object, hil_history_number *visit, void *context);

/* Adds such an object: each number in it is a point of the series with its name; one with a sample
   of text is kept. Steps do not fall. */
hil_status hil_history_add(hil_history *history, json_t *object, int64_t step);
/* Reads run.json, if there is one, and metrics.jsonl of an output folder. A last line that is still
   being written is left out. */
hil_status hil_history_read(hil_history *history, const char *folder);
/* The same without run.json. */
hil_status hil_history_read_metrics(hil_history *history, const char *folder);
void hil_history_free(hil_history *history);

/* Calls `visit` with every whole line of metrics.jsonl of `folder`, without its end, until a call
   fails. `what` names the line. */
typedef hil_status hil_history_visit(void *context, const char *line, size_t size,
                                     const char *what);
hil_status hil_history_each(const char *folder, hil_history_visit *visit, void *context);

#endif
