/* metrics.h - OUT/metrics.jsonl: one object per step. */
#ifndef HIL_RUN_METRICS_H
#define HIL_RUN_METRICS_H

#include "hilbert/run.h"

#include "base/fail.h"

/* Owns the file. A rank that writes none knows all the same when the last evaluation was. */
typedef struct hil_metrics {
    FILE *file;        /* NULL: lines go nowhere */
    int64_t evaluated; /* step of the last evaluation in the file, -1: none */
    double eval_loss;
} hil_metrics;

/* Opens the file for more lines. What is there about steps after `step` is cut off first. */
hil_status hil_metrics_open(hil_metrics *metrics, const char *path, int64_t step);
hil_status hil_metrics_step(hil_metrics *metrics, const hil_step_report *report);
hil_status hil_metrics_eval(hil_metrics *metrics, int64_t step, double loss);
/* Makes the lines durable: a checkpoint must not know more steps than the file. */
hil_status hil_metrics_sync(hil_metrics *metrics);
void hil_metrics_close(hil_metrics *metrics);

#endif
