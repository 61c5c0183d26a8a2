/* planner.h - chooses where everything lives. Every candidate is rehearsed; the fastest one that
   stays within the budgets wins. The same inputs always give the same plan. */
#ifndef HIL_PLAN_PLANNER_H
#define HIL_PLAN_PLANNER_H

#include "plan/placement.h"

/* [Note: ZeRO stages] With several ranks every weight that is used is gathered into the window. How
   much of them it holds at least is the stage of ZeRO: 3, what is used at once; 2, all weights,
   which are then gathered once a step; 1, all sums of gradients as well, with micro-batches one
   after the other. States are divided among the ranks in every stage, and the numbers are the same.
 */
typedef struct hil_planner {
    const hil_outline *outline;
    hil_budget budget;
    size_t tokens;   /* host bytes of a batch, which are not part of it: messages count them */
    bool apart;      /* the device has memory of its own: see hil_plan */
    bool wired;      /* and ranks reach each other's */
    double visiting; /* part of the updates of what is on the host that it would do in the time in
                        which the CPU does the rest */
    bool prefetch;
    bool recompute; /* keep nothing for backward */
    int zero;       /* see [Note: ZeRO stages]; 0: 3 */
    /* hil_rehearse_trial and hil_rehearse_tensors (rehearse.h); the second may be NULL, then the
       first does it. HIL_ERR_BUDGET: this plan cannot work. */
    hil_status (*rehearse)(void *context, hil_plan *plan);
    hil_status (*learn)(void *context, hil_plan *plan);
    void *context;
} hil_planner;

/* The plan to follow, with what it needs and what it predicts; release it with hil_plan_free.
   HIL_ERR_BUDGET: nothing fits; the message says what is missing where, and what would help. */
hil_status hil_planner_choose(const hil_planner *planner, hil_plan *out);

/* An edited plan: given the ring that it needs at least, rehearsed, and refused when it needs more
   than the budgets. */
hil_status hil_planner_check(const hil_planner *planner, hil_plan *plan);

#endif
