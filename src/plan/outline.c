/* outline.c - the arrays of a plan, its table of bytes, its bottleneck. */
#include "plan/outline.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

hil_status hil_plan_create(hil_plan *plan, const hil_outline *outline)
{
    *plan = (hil_plan){.prefetch = true, .group = 1, .units = outline->units};
    plan->ranks = hil_outline_ranks(outline);
    plan->zero = 3;
    plan->saves = outline->saves;
    plan->segments = outline->segments;
    HIL_TRY(HIL_ALLOC(plan->units, &plan->unit));
    return HIL_ALLOC(plan->segments, &plan->segment);
}

void hil_plan_copy(hil_plan *to, const hil_plan *from)
{
    hil_unit_place *unit = to->unit;
    hil_segment_place *segment = to->segment;
    assert(to->units == from->units && to->segments == from->segments);
    *to = *from;
    to->unit = unit;
    to->segment = segment;
    memcpy(unit, from->unit, from->units * sizeof *unit);
    memcpy(segment, from->segment, from->segments * sizeof *segment);
}

void hil_plan_free(hil_plan *plan)
{
    hil_free(plan->unit);
    hil_free(plan->segment);
    plan->unit = NULL;
    plan->segment = NULL;
}

void hil_plan_take_account(hil_plan *plan, const hil_account *account)
{
    plan->disk_read = account->disk_read;
    plan->disk_written = account->disk_written;
    plan->to_device = account->to_device;
    plan->to_host = account->to_host;
    plan->gathered = account->bytes[HIL_LINK_GATHER];
    plan->reduced = account->bytes[HIL_LINK_REDUCE];
    memcpy(plan->wait, account->wait, sizeof plan->wait);
    memcpy(plan->busy, account->busy, sizeof plan->busy);
    plan->update_seconds = account->busy[HIL_LINK_UPDATE];
}

static void grow_bytes(uint64_t *bytes, double times)
{
    *bytes = (uint64_t)((double)*bytes * times);
}

void hil_plan_grow(hil_plan *p, double times)
{
    uint64_t *const bytes[] = {&p->disk_read, &p->disk_written, &p->to_device,
                               &p->to_host,   &p->gathered,     &p->reduced};
    if (times <= 1) return;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; ++i) grow_bytes(bytes[i], times);
    for (int i = 0; i < HIL_WAITS; ++i) p->wait[i] *= times;
    for (int i = 0; i < HIL_LINKS; ++i) p->busy[i] *= times;
    p->step_seconds *= times;
    p->compute_seconds *= times;
    p->update_seconds *= times;
}

double hil_outline_growth(const hil_outline *outline)
{
    double all = 0, own = 0;
    for (size_t u = 0; u < outline->units; ++u) {
        const hil_outline_unit *unit = &outline->unit[u];
        own += (double)unit->elements;
        all += (double)unit->elements * (double)hil_outline_times(unit->count);
    }
    return own > 0 ? all / own : 1;
}

/* The name of the busiest link. */
static const char *busiest(const hil_plan *p, bool update)
{
    const double *busy = p->busy;
    double disk = fmax(busy[HIL_LINK_FETCH], busy[HIL_LINK_STASH]);
    double link = fmax(fmax(busy[HIL_LINK_IN], busy[HIL_LINK_BACK]), busy[HIL_LINK_OUT]);
    double sweep = fmax(busy[HIL_LINK_READ], busy[HIL_LINK_WRITE]);
    double network = fmax(busy[HIL_LINK_GATHER], busy[HIL_LINK_REDUCE]);
    if (!update && network > disk && network > link) return "network";
    if (!update) return disk > link ? "disk" : "host link";
    if (busy[HIL_LINK_UPDATE] >= sweep) return "update";
    return p->disk_read + p->disk_written > 0 ? "disk" : "host link";
}

const char *hil_plan_limit(const hil_plan *plan)
{
    double total = 0;
    int most = 0;
    for (int i = 0; i < HIL_WAITS; ++i) {
        total += plan->wait[i];
        if (plan->wait[i] > plan->wait[most]) most = i;
    }
    if (total < 0.1 * plan->step_seconds || plan->wait[most] <= 0) return "compute";
    if (most == HIL_WAIT_MEMORY) return "memory";
    return busiest(plan, most == HIL_WAIT_UPDATE);
}

void hil_plan_count(const hil_outline *outline, const hil_plan *plan, hil_plan_table *out)
{
    *out = (hil_plan_table){0};
    for (size_t u = 0; u < outline->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            out->bytes[s][plan->unit[u].tier[s]] += hil_outline_bytes(&outline->unit[u], s);
}
