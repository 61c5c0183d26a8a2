/* plan.h - plans a run without starting it: placement, transfers, time of a step. */
#ifndef HILBERT_PLAN_H
#define HILBERT_PLAN_H

#include "hilbert/report.h"
#include "hilbert/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_plan_options {
    size_t size;     /* set by hil_plan_defaults */
    bool json;       /* hil_plan_show prints one JSON object */
    int ranks;       /* plan for that many ranks, all on this machine; 0: 1 */
    const char *gpu; /* plan for this GPU, such as "RTX 4090"; NULL: for what `device` names */
    int64_t context; /* plan hil_chat_open with a context of so many tokens; 0: plan training */
    /* File that describes a machine of one node or many, which is planned for instead of this one;
       "this": this one, as hil_probe describes it. NULL: none. `ranks` and `gpu` follow from it. */
    const char *cluster;
    bool largest; /* with `cluster`: find the largest such model, too */
} hil_plan_options;
HIL_API void hil_plan_defaults_sized(hil_plan_options *options, size_t size);
#define hil_plan_defaults(options) hil_plan_defaults_sized(options, sizeof *(options))

/* Plans a run with the options `train`: where everything is kept, what moves per step, how long a
   step takes and what would make it faster. Allocates nothing of the run, reads no data and writes
   to no disk; budgets are not checked against free memory or free disk space. A run that does not
   fit is no failure: the report says so. The caller owns *out. */
HIL_API hil_status hil_plan_open(hil_plan_report **out, const hil_train_options *train,
                                 const hil_plan_options *options, const hil_observer *observer);
HIL_API void hil_plan_close(hil_plan_report *report);
/* Prints the same as tables, or with `json` as the object that hil_train_options.plan reads. Fails
   with HIL_ERR_BUDGET if the run does not fit; the object, if asked for, is printed first. */
HIL_API hil_status hil_plan_show(const hil_train_options *train, const hil_plan_options *options,
                                 const hil_observer *observer, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
