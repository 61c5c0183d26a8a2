/* reporter.h - shows a run while it trains: run.json, report.html and TensorBoard's events, all
 * written by a thread of its own. */
#ifndef HIL_RUN_REPORTER_H
#define HIL_RUN_REPORTER_H

#include "base/json.h"
#include "io/file.h"

/* Owns the thread and what it writes. */
typedef struct hil_reporter hil_reporter;

typedef struct hil_reporter_options {
    const char *folder;   /* the output folder; copied */
    const hil_lock *lock; /* on that folder: without it nothing is written there; borrowed */
    const char *events;   /* folder for TensorBoard's events; NULL: none; copied */
    bool page;            /* write run.json and report.html; else events only */
    int64_t step;         /* that the run goes on after: metrics.jsonl has all up to it */
} hil_reporter_options;

/* Seconds until the page is replaced again, after `work` seconds of writing: at least ten, and so
   many that the thread works for less than 1/200 of the time, but at most two minutes: who reads
   the page takes a run for killed that does not write. */
double hil_reporter_pause(double work);
/* Starts the thread, which replaces the page again and again. Owns `about`, the object of run.json,
   also if it fails. */
hil_status hil_reporter_open(hil_reporter **out, const hil_reporter_options *options,
                             json_t *about);
/* Queues a line of metrics.jsonl, or a sentence for the user. Cheap. */
void hil_reporter_line(hil_reporter *reporter, const char *line, size_t size);
void hil_reporter_note(hil_reporter *reporter, const char *text);
/* How a run is. */
typedef struct hil_run_end {
    const char *state;   /* "running", "finished", "stopped" or "failed" */
    const char *failure; /* why it failed; NULL: it did not */
} hil_run_end;
/* Writes everything a last time, with this end of the run, and joins the thread. Fails with the
   first failure of the thread, which has ended no run. NULL: does nothing. */
hil_status hil_reporter_close(hil_reporter *reporter, hil_run_end end);

#endif
