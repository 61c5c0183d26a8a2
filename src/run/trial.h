/* trial.h - plans for a described cluster: speed of all ranks, what one change would bring, the
 * largest model. */
#ifndef HIL_RUN_TRIAL_H
#define HIL_RUN_TRIAL_H

#include "hilbert/plan.h"

#include "base/json.h"
#include "machine/cluster.h"

/* One plan among several that are compared. Borrows everything. */
typedef struct hil_trial {
    const hil_train_options *run;
    const hil_cluster *cluster; /* NULL: this machine */
    int64_t layers;             /* instead of the model's; 0: the model's */
    int64_t width;              /* times as wide as the model; 0: 1 */
    bool any;                   /* only asks whether a plan works */
} hil_trial;

/* Makes the plan of a trial, and its JSON object, which the report does not have as text yet. One
   that does not fit is no failure. The caller owns both. */
hil_status hil_trial_plan(const hil_trial *trial, const hil_plan_options *options,
                          const hil_observer *observer, hil_plan_report **out, json_t **object);

/* Reads the cluster of the options and plans for it, likewise. Budgets that `run` does not set are
   what the cluster has. */
hil_status hil_trial_scale(const hil_train_options *run, const hil_plan_options *options,
                           const hil_observer *observer, hil_plan_report **out, json_t **object);
void hil_trial_print(const hil_plan_report *report, FILE *out);
/* Of a run that does not fit: what one change would bring, and the largest model if asked for. */
void hil_trial_print_refused(const hil_plan_report *report, FILE *out);

#endif
