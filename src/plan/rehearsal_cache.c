/* rehearsal_cache.c - no plan is rehearsed twice: different candidates often lead to the same plan.
 */
#include "plan/rehearsal_cache.h"

#include "base/alloc.h"

#include <string.h>

typedef struct hil_rehearsed_plan {
    hil_plan plan; /* as rehearsed, with its predictions */
    hil_status status;
} hil_rehearsed_plan;

static bool same_segments(const hil_plan *a, const hil_plan *b)
{
    for (size_t i = 0; i < a->segments; ++i) {
        const hil_segment_place *p = &a->segment[i], *q = &b->segment[i];
        if (p->keep != q->keep || p->lean != q->lean || p->tier != q->tier ||
            p->tapes != q->tapes || p->thin != q->thin)
            return false;
    }
    return true;
}

static bool same_units(const hil_plan *a, const hil_plan *b)
{
    for (size_t u = 0; u < a->units; ++u) {
        const hil_unit_place *p = &a->unit[u], *q = &b->unit[u];
        if (memcmp(p->tier, q->tier, sizeof p->tier) != 0 || p->device_updates != q->device_updates)
            return false;
    }
    return true;
}

/* Compares what a rehearsal depends on; not the room for tensors and spilled sums, its result. */
static bool same(const hil_plan *a, const hil_plan *b)
{
    return a->group == b->group && a->by_segment == b->by_segment && a->by_tile == b->by_tile &&
           a->keeps_sums == b->keeps_sums && a->late_moments == b->late_moments &&
           a->window == b->window && a->ring == b->ring && a->chunk == b->chunk &&
           a->slots == b->slots && a->device_slots == b->device_slots && a->spill == b->spill &&
           a->zero == b->zero && same_segments(a, b) && same_units(a, b);
}

static hil_status copy(hil_plan *out, const hil_plan *plan)
{
    *out = *plan;
    out->unit = NULL;
    out->segment = NULL;
    HIL_TRY(HIL_ALLOC(plan->units, &out->unit));
    HIL_TRY(HIL_ALLOC(plan->segments, &out->segment));
    hil_plan_copy(out, plan);
    return HIL_OK;
}

hil_status hil_rehearsal_cache_rehearse(hil_rehearsal_cache *cache, const hil_planner *planner,
                                        hil_plan *plan)
{
    for (size_t i = 0; i < cache->count; ++i)
        if (same(&cache->plan[i].plan, plan)) {
            hil_plan_copy(plan, &cache->plan[i].plan);
            return cache->plan[i].status;
        }
    hil_status status = planner->rehearse(planner->context, plan);
    if (status != HIL_ERR_BUDGET) HIL_TRY(status);
    HIL_TRY(HIL_GROW(&cache->plan, &cache->room, cache->count + 1));
    hil_rehearsed_plan *new = &cache->plan[cache->count++];
    new->status = status;
    HIL_TRY(copy(&new->plan, plan));
    return status;
}

void hil_rehearsal_cache_free(hil_rehearsal_cache *cache)
{
    for (size_t i = 0; i < cache->count; ++i) hil_plan_free(&cache->plan[i].plan);
    hil_free(cache->plan);
    *cache = (hil_rehearsal_cache){0};
}
