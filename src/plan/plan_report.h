/* plan_report.h - computes the report of a plan. */
#ifndef HIL_PLAN_PLAN_REPORT_H
#define HIL_PLAN_PLAN_REPORT_H

#include "hilbert/report.h"

#include "base/json.h"
#include "machine/probe.h"
#include "plan/analysis.h"
#include "plan/placement.h"

/* The inputs of a report. */
typedef struct hil_plan_view {
    const hil_outline *outline;
    const hil_plan *plan;
    const hil_machine *machine;
    hil_dense dense; /* for the paper's analysis; 0 layers: no analysis */
    hil_dtype dtype;
    uint64_t tokens; /* host bytes of a batch's tokens, part of the peak */
    uint64_t cache;  /* device bytes of a key/value cache, part of the tensors */
} hil_plan_view;

/* Fills everything that follows from the plan; strings are borrowed. */
void hil_plan_report_fill(const hil_plan_view *view, hil_plan_report *out);
/* Of these the bytes, times and bottleneck of a step. */
void hil_plan_report_step(const hil_plan *plan, hil_plan_report *out);
hil_wait_seconds hil_plan_waits(const double wait[HIL_WAITS]);
/* The table of memory as a list of objects: "name", "device", "host", "disk". NULL: out of memory.
 */
json_t *hil_plan_report_rows(const hil_plan_report *report);
/* The speeds that were assumed, not measured: "host" for those of computing, and paths of drives.
   NULL: out of memory. */
json_t *hil_plan_assumed(const hil_machine *machine, const hil_memory_options *memory);

#endif
