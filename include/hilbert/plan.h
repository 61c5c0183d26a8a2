/* plan.h - where everything of a run would live. */
#ifndef HILBERT_PLAN_H
#define HILBERT_PLAN_H

#include "hilbert/report.h"
#include "hilbert/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_plan_options {
    size_t size;     /* set by hil_plan_defaults */
    bool json;       /* how hil_plan_show prints */
    int ranks;       /* as if there were so many, all on this machine; 0: 1 */
    const char *gpu; /* as if this one computed: "RTX 4090"; NULL: what `device` names */
} hil_plan_options;
HIL_API void hil_plan_defaults_sized(hil_plan_options *options, size_t size);
#define hil_plan_defaults(options) hil_plan_defaults_sized(options, sizeof *(options))

/* Where everything of a run with the options `train` would live, what moves per step, how long a
   step takes and what would help. Nothing of the run is allocated, no data is read and no disk is
   written to; sizes of memory and disks are believed. A run that does not fit is a report too. */
HIL_API hil_status hil_plan_open(hil_plan_report **out, const hil_train_options *train,
                                 const hil_plan_options *options, const hil_observer *observer);
HIL_API void hil_plan_close(hil_plan_report *report);
/* The same, printed: as tables, or with `json` as the object that `plan` of the options reads. A
   run that does not fit is a failure, after an object that says so. */
HIL_API hil_status hil_plan_show(const hil_train_options *train, const hil_plan_options *options,
                                 const hil_observer *observer, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
