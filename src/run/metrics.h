/* metrics.h - OUT/metrics.jsonl: one object per step. */
#ifndef HIL_RUN_METRICS_H
#define HIL_RUN_METRICS_H

#include "hilbert/run.h"
#include "hilbert/trainer.h"

#include "base/text.h"
#include "run/reporter.h"

/* Owns the file. Ranks other than 0 have no file, but the same `evaluated` and `eval_loss`. */
typedef struct hil_metrics {
    FILE *file;             /* NULL: nothing is written */
    hil_reporter *reporter; /* is shown each line; NULL: none */
    hil_text line;          /* being built */
    int64_t evaluated;      /* step of the last evaluation in the file; -1: none */
    double eval_loss;
    double router_z; /* of the step that is written next; 0: none */
} hil_metrics;

/* Opens the file to append. First removes the lines of steps after `step`. */
hil_status hil_metrics_open(hil_metrics *metrics, const char *path, int64_t step);
hil_status hil_metrics_step(hil_metrics *metrics, const hil_step_report *report);
/* `losses` is a JSON object with the loss of each of several sets; NULL: there is one. */
hil_status hil_metrics_eval(hil_metrics *metrics, int64_t step, const hil_step_result *result,
                            const char *losses);
/* A sample of text. */
hil_status hil_metrics_sample(hil_metrics *metrics, int64_t step, const char *prompt,
                              const char *text, double seconds);
/* Makes the lines durable: called before a checkpoint becomes whole, so that the file has all steps
   up to the checkpoint's. */
hil_status hil_metrics_sync(hil_metrics *metrics);
void hil_metrics_close(hil_metrics *metrics);

#endif
