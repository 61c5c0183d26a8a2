/* planner.h - chooses a plan: rehearses candidates and takes the fastest that stays within the
   budgets. The same inputs always give the same plan. */
#ifndef HIL_PLAN_PLANNER_H
#define HIL_PLAN_PLANNER_H

#include "plan/placement.h"

/* [Note: ZeRO stages] With several ranks a weight is gathered into the window before its use. The
   ZeRO stage is the least that the window holds. Stage 3: what is in use at once. Stage 2: all
   weights, so that each is gathered once a step. Stage 1: all sums of gradients as well, with one
   micro-batch after the other. In every stage states are divided among ranks and the bits are the
   same. */
typedef struct hil_planner {
    const hil_outline *outline;
    hil_budget budget;
    size_t tokens;       /* host bytes of a batch, not part of `budget`; messages add them */
    bool discrete;       /* the device has memory of its own: see hil_plan */
    bool connected;      /* the devices of ranks are connected */
    double device_share; /* share of host-resident updates given to the device so that it and the
                        CPU finish together */
    bool prefetch;
    bool recompute; /* keep nothing for backward */
    bool any;       /* take the first plan that works: to find out whether one does */
    int zero;       /* see [Note: ZeRO stages]; 0: 3 */
    /* hil_rehearse_trial and hil_rehearse_tensors (rehearse.h). If `learn` is NULL, `rehearse` is
       used for both. HIL_ERR_BUDGET: this plan cannot work. */
    hil_status (*rehearse)(void *context, hil_plan *plan);
    hil_status (*learn)(void *context, hil_plan *plan, bool limited);
    void *context;
} hil_planner;

/* Chooses the plan, with its needs and predictions; free it with hil_plan_free. HIL_ERR_BUDGET:
   nothing fits; the message says what is missing where, and which options would help. */
hil_status hil_planner_choose(const hil_planner *planner, hil_plan *out);

/* Checks a plan from a file, which the user may have edited: enlarges its ring if needed, rehearses
   it, and refuses it if it needs more than the budgets. */
hil_status hil_planner_check(const hil_planner *planner, hil_plan *plan);

#endif
