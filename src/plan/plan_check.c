/* plan_check.c - checks an edited plan against the budgets. */
#include "base/text.h"
#include "plan/planner.h"

static hil_status check_needs(const hil_budget *b, const uint64_t need[HIL_TIERS])
{
    static const char *const names[HIL_TIERS] = {"device memory", "host memory", "disk"};
    const uint64_t budget[HIL_TIERS] = {b->device, b->host, b->disk};
    char a[32], z[32];
    for (int t = 0; t < HIL_TIERS; ++t)
        if (need[t] > budget[t])
            return hil_fail(HIL_ERR_BUDGET, "this plan needs %s of %s, but it may use %s",
                            hil_text_bytes(a, need[t]), names[t], hil_text_bytes(z, budget[t]));
    return HIL_OK;
}

hil_status hil_planner_check(const hil_planner *planner, hil_plan *plan)
{
    const hil_budget *b = &planner->budget;
    uint64_t need[HIL_TIERS];
    size_t ring = hil_plan_ring(plan, planner->outline);
    if (plan->by_tile && !hil_plan_may_give_by_tile(plan, planner->outline))
        return hil_fail(
            HIL_ERR_INPUT,
            "this plan gives gradients tile by tile, which needs one micro-batch in a step "
            "on each rank: take \"by_tile\" or \"by_segment\" out of it");
    plan->discrete = planner->discrete;
    plan->connected = planner->connected;
    plan->keeps_sums = plan->keeps_sums && hil_plan_may_keep_sums(plan, planner->outline);
    plan->late_moments = plan->late_moments && plan->discrete;
    hil_plan_device_updates(plan, planner->outline);
    plan->device_budget = b->device;
    plan->host_budget = b->host;
    plan->disk_budget = b->disk;
    if (ring && !b->disk)
        return hil_fail(HIL_ERR_BUDGET, "this plan keeps something on disk: give --disk PATH");
    if (plan->ring < ring) plan->ring = ring; /* an edit put something on disk */
    plan->work = plan->expanded;
    plan->offloaded = plan->spilled = 0;
    hil_plan_needs(plan, planner->outline, need); /* before a rehearsal with absurd sizes */
    HIL_TRY(check_needs(b, need));
    HIL_TRY(planner->rehearse(planner->context, plan));
    hil_plan_needs(plan, planner->outline, need);
    for (int t = 0; t < HIL_TIERS; ++t)
        if (plan->peak[t] > need[t]) need[t] = plan->peak[t];
    return check_needs(b, need);
}
