/* layout.h - ZeRO-Infinity's own layout on a described cluster: 20 bytes for each parameter,
   classes of states placed whole, fp16. To compare with the paper's numbers; hilbert does not train
   so. */
#ifndef HIL_PLAN_LAYOUT_H
#define HIL_PLAN_LAYOUT_H

#include "base/json.h"
#include "machine/cluster.h"
#include "plan/analysis.h"
#include "plan/budget.h"
#include "hilbert/report.h"
#include "tier/links.h"

/* Bytes of one parameter. */
#define HIL_LAYOUT_WEIGHT 2     /* fp16 */
#define HIL_LAYOUT_GRADIENT 2   /* fp16; kept where the optimizer's states are */
#define HIL_LAYOUT_OPTIMIZER 16 /* fp32: master weight, two moments, gradient */
#define HIL_LAYOUT_STATES (HIL_LAYOUT_WEIGHT + HIL_LAYOUT_GRADIENT + HIL_LAYOUT_OPTIMIZER)

typedef struct hil_layout_bytes {
    double weights, gradients, optimizer, checkpoints; /* on the tiers below */
    double work;                                       /* on the device */
} hil_layout_bytes;

/* A placement of the classes on a rank, with the bytes that it needs and the time of a step. */
typedef struct hil_layout {
    hil_tier weights, optimizer, checkpoints;
    hil_layout_bytes bytes;
    double need[HIL_TIERS], have[HIL_TIERS]; /* bytes */
    bool fits;
    double step, computing; /* seconds */
    hil_account account;
} hil_layout;

/* Places the classes as the cluster's description says; where it does not say, the fastest that
   fits, or the one that lacks least if none does. `model` is what one rank computes: its batch may
   be a fraction. `have` is the memory of a rank. */
hil_status hil_layout_choose(const hil_cluster *cluster, const hil_dense *model,
                             const hil_budget *have, hil_layout *out);
/* Rehearses a step of the placement; fills in times and the account. */
hil_status hil_layout_rehearse(const hil_cluster *cluster, const hil_dense *model,
                               hil_layout *layout);
/* Fills the parts of a report that follow from the layout, and its JSON object, which the caller
   owns. A layout that does not fit has its times as well. */
hil_status hil_layout_report(const hil_layout *layout, const hil_dense *model, hil_plan_report *out,
                             json_t **object);

#endif
