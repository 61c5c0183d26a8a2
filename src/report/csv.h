/* csv.h - the metrics of a run as a table. */
#ifndef HIL_REPORT_CSV_H
#define HIL_REPORT_CSV_H

#include "base/fail.h"

#include <stdio.h>

/* Writes the numbers of metrics.jsonl of an output folder: one row for each step, one column for
   each name, in the order of their first appearance; empty where a step has no such number. */
hil_status hil_csv_write(const char *folder, FILE *out);

#endif
