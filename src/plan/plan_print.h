/* plan_print.h - a plan in words and numbers for people. */
#ifndef HIL_PLAN_PLAN_PRINT_H
#define HIL_PLAN_PLAN_PRINT_H

#include "base/text.h"
#include "plan/analysis.h"
#include "plan/placement.h"
#include "machine/probe.h"

/* What a plan is shown with. */
typedef struct hil_plan_view {
    const hil_outline *outline;
    const hil_plan *plan;
    const hil_machine *machine;
    hil_dense dense; /* for the paper's analysis */
    hil_dtype dtype;
    uint64_t tokens; /* host bytes of a batch's tokens, part of the peak */
} hil_plan_view;

/* Tables: what lives where, peaks against budgets, what moves, how long a step takes, what would
   help, and the paper's analysis. */
hil_status hil_plan_print_all(const hil_plan_view *view, hil_text *out);
/* One or two sentences for the start of a run. */
hil_status hil_plan_print_short(const hil_plan_view *view, hil_text *out);
/* The analysis alone, as it is part of the whole. */
hil_status hil_plan_print_analysis(const hil_plan_view *view, hil_text *out);

#endif
