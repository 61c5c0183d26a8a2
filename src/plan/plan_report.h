/* plan_report.h - the numbers that a plan is shown with. */
#ifndef HIL_PLAN_PLAN_REPORT_H
#define HIL_PLAN_PLAN_REPORT_H

#include "hilbert/report.h"

#include "machine/probe.h"
#include "plan/analysis.h"
#include "plan/placement.h"

/* What a report is made from. */
typedef struct hil_plan_view {
    const hil_outline *outline;
    const hil_plan *plan;
    const hil_machine *machine;
    hil_dense dense; /* for the paper's analysis; no layers: there is none */
    hil_dtype dtype;
    uint64_t tokens; /* host bytes of a batch's tokens, part of the peak */
} hil_plan_view;

/* All of a report that follows from the plan; names are not owned. */
void hil_plan_report_fill(const hil_plan_view *view, hil_plan_report *out);

#endif
