/* plan_print.h - a plan in words and numbers for people. */
#ifndef HIL_PLAN_PLAN_PRINT_H
#define HIL_PLAN_PLAN_PRINT_H

#include "hilbert/report.h"

#include "base/text.h"

/* Tables: what lives where, peaks against budgets, what moves, how long a step takes, what would
   help, and the paper's analysis. */
hil_status hil_plan_print_all(const hil_plan_report *report, hil_text *out);
/* One or two sentences for the start of a run. */
hil_status hil_plan_print_short(const hil_plan_report *report, hil_text *out);

#endif
