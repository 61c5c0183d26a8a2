/* plan.h - what a machine can do, and where everything of a run would live. */
#ifndef HILBERT_PLAN_H
#define HILBERT_PLAN_H

#include "hilbert/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Measures the machine and the drives of `disks` in a few seconds and prints the speeds. */
typedef struct hil_probe_options {
    const hil_disk_budget *disks;
    size_t disk_count;
    hil_io_kind io;
    int threads; /* 0: all */
    hil_device_choice device;
    const char *cache; /* a file that keeps speeds from one run to the next; NULL: none */
    bool again;        /* measure what is known already */
    bool json;
} hil_probe_options;
HIL_API hil_status hil_probe(const hil_probe_options *options, const hil_observer *observer,
                             FILE *out);

/* Where everything of a run with these options would live, what moves per step, how long a step
   takes and what would help. Nothing of the run is allocated, no data is read and no disk is
   written to; sizes of memory and disks are believed. As a JSON object it is what `plan` of the
   options reads. A run that does not fit is a failure, after an object that says so.
 */
typedef struct hil_plan_form {
    bool json;
    int ranks;       /* as if there were so many, all on this machine; 0: 1 */
    const char *gpu; /* as if this one computed: "RTX 4090"; NULL: what `device` names */
} hil_plan_form;
HIL_API hil_status hil_plan_show(const hil_train_options *options, const hil_plan_form *form,
                                 const hil_observer *observer, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
