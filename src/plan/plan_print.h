/* plan_print.h - prints a plan as text. */
#ifndef HIL_PLAN_PLAN_PRINT_H
#define HIL_PLAN_PLAN_PRINT_H

#include "hilbert/report.h"

#include "base/text.h"

/* Tables: bytes per tier, peaks and budgets, transfers, the time of a step, advice, and the paper's
   analysis. */
hil_status hil_plan_print_all(const hil_plan_report *report, hil_text *out);
/* One or two sentences for the start of a run. */
hil_status hil_plan_print_short(const hil_plan_report *report, hil_text *out);

#endif
