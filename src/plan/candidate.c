/* candidate.c - what a plan has on the device, and quantized weights that stay expanded there. */
#include "plan/candidate.h"

#include "io/align.h"

#define BUSY_COST 0.05
#define BUS_COST 0.01    /* the same for copies over a bus, which hardly slow the device */
#define UPDATE_COST 0.1  /* of a device's update by the CPU, besides */
#define GROUP_MOST 64    /* micro-batches that pass a segment together */
#define GROUP_LEAST 8    /* but so many even where that makes more visits than below */
#define VISITS_MOST 3072 /* of segments in the forward of a group: a rehearsal takes a second */

int64_t hil_choice_large_group(const hil_outline *outline)
{
    int64_t micros = outline->micros, most = VISITS_MOST / (int64_t)outline->segments;
    if (most < GROUP_LEAST) most = GROUP_LEAST;
    if (most > GROUP_MOST) most = GROUP_MOST;
    if (micros <= most + most / 2) return micros;
    int64_t groups = (micros + most - 1) / most;
    return (micros + groups - 1) / groups;
}

double hil_choice_cost(const hil_plan *plan)
{
    double busy = 0;
    for (int i = 0; i < HIL_LINKS; ++i) busy += plan->busy[i];
    double update = plan->discrete ? UPDATE_COST * plan->busy[HIL_LINK_UPDATE] : 0;
    return plan->step_seconds + (plan->discrete ? BUS_COST : BUSY_COST) * busy + update;
}

bool hil_choice_fits(const hil_choice *c, const hil_plan *p)
{
    const hil_budget *b = &c->planner->budget;
    uint64_t need[HIL_TIERS];
    hil_plan_needs(p, c->outline, need);
    return need[HIL_DEVICE] <= b->device && need[HIL_HOST] <= b->host &&
           need[HIL_DISK] <= b->disk && p->peak[HIL_DEVICE] <= b->device &&
           p->peak[HIL_HOST] <= b->host && p->peak[HIL_DISK] <= b->disk;
}

void hil_choice_note_work(hil_choice *c)
{
    hil_tensor_needs *l = &c->needs[c->at.group > 1][c->at.tier][c->at.level];
    size_t work = c->trial.work;
    if (work > l->work && work <= c->planner->budget.device) l->work = work;
}

void hil_choice_set_window(hil_choice *c, size_t window)
{
    hil_plan *p = &c->trial;
    uint64_t w[HIL_WINDOWS];
    hil_plan_windows(c->outline, false, w);
    bool stay =
        p->group < c->outline->micros && window >= hil_plan_sums(c->outline) + w[HIL_WINDOW_LEAST];
    p->window = window;
    p->keeps_sums = stay && hil_plan_may_keep_sums(p, c->outline);
}

bool hil_choice_resident(const hil_choice *c, const hil_plan *plan)
{
    for (size_t u = 0; u < plan->units; ++u)
        if (c->outline->unit[u].bytes[HIL_WEIGHT] && plan->unit[u].tier[HIL_WEIGHT] != HIL_DEVICE)
            return false;
    return true;
}

bool hil_choice_states_on_device(const hil_choice *c, const hil_plan *plan)
{
    hil_plan_table table;
    hil_plan_count(c->outline, plan, &table);
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        if (table.bytes[s][HIL_HOST] || table.bytes[s][HIL_DISK]) return false;
    return true;
}

bool hil_choice_all_on_device(const hil_choice *c)
{
    if (!c->found || !hil_choice_states_on_device(c, &c->best)) return false;
    for (size_t i = 0; i < c->best.segments && !c->planner->recompute; ++i)
        if (c->best.segment[i].keep < c->best.group) return false;
    return true;
}

/* Bytes that all quantized weights take in 16 bits, at most: those of 4 bits are the smallest. */
static double expanded_bytes(const hil_outline *outline)
{
    double bytes = 0;
    for (size_t u = 0; u < outline->units; ++u) {
        const hil_outline_unit *unit = &outline->unit[u];
        if ((int64_t)unit->bytes[HIL_WEIGHT] < 2 * unit->elements)
            bytes += 4 * (double)hil_outline_bytes(unit, HIL_WEIGHT);
    }
    return bytes;
}

#define LATE_GAIN 0.99 /* of the time of a step: more work is worth it from there on */

hil_status hil_choice_late_moments(hil_choice *c)
{
    const hil_planner *planner = c->planner;
    hil_plan *p = &c->trial;
    if (!planner->discrete || !c->outline->training || hil_choice_states_on_device(c, &c->best))
        return HIL_OK;
    if (!(c->best.wait[HIL_WAIT_UPDATE] > 0)) return HIL_OK;
    hil_plan_copy(p, &c->best);
    p->late_moments = true;
    hil_status status = planner->rehearse(planner->context, p);
    if (status == HIL_ERR_BUDGET) return HIL_OK;
    HIL_TRY(status);
    if (hil_choice_fits(c, p) && p->step_seconds < LATE_GAIN * c->best.step_seconds)
        hil_plan_copy(&c->best, p);
    return HIL_OK;
}

hil_status hil_choice_keep_expanded(hil_choice *c)
{
    const hil_planner *planner = c->planner;
    hil_plan *p = &c->trial;
    double wanted = expanded_bytes(c->outline);
    if (!planner->discrete || !hil_choice_alone(c) || !(wanted > 0) || !hil_choice_all_on_device(c))
        return HIL_OK;
    uint64_t need[HIL_TIERS];
    hil_plan_needs(&c->best, c->outline,
                   need); /* more than its peak: not all of the window is used */
    double left = (double)planner->budget.device - (double)need[HIL_DEVICE];
    left -= 2 * HIL_IO_ALIGN; /* where it begins and ends */
    if (left < HIL_IO_ALIGN) return HIL_OK;
    hil_plan_copy(p, &c->best);
    p->expanded = (size_t)(left < wanted ? left : wanted) / HIL_IO_ALIGN * HIL_IO_ALIGN;
    hil_status status = planner->rehearse(planner->context, p);
    if (status == HIL_ERR_BUDGET) return HIL_OK;
    HIL_TRY(status);
    if (hil_choice_fits(c, p)) hil_plan_copy(&c->best, p);
    return HIL_OK;
}
