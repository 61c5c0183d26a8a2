/* plan.c - asks for everything that a plan depends on, then makes it. */
#include "train/plan.h"

#include "autograd/engine.h"
#include "base/alloc.h"
#include "store/store.h"
#include "train/plan_file.h"

#include <stdio.h>

static hil_status outline_model(const hil_plan_request *r, hil_planned *out)
{
    const hil_store *store = r->model->store;
    size_t units = hil_store_units(store), segments = r->model->count;
    HIL_TRY(HIL_ALLOC(units, &out->unit));
    HIL_TRY(HIL_ALLOC(segments, &out->segment));
    for (size_t u = 0; u < units; ++u) {
        hil_outline_unit *unit = &out->unit[u];
        char name[HIL_UNIT_NAME];
        snprintf(unit->name, sizeof unit->name, "%s", hil_unit_name(store, u, name));
        unit->elements = hil_unit_elements(store, u);
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            unit->bytes[s] = hil_unit_bytes(store, u, (hil_unit_state)s);
        if (unit->bytes[HIL_GRADIENT]) unit->uses = hil_unit_uses(store, u);
    }
    for (size_t i = 0; i < segments; ++i) {
        hil_outline_segment *segment = &out->segment[i];
        segment->name = r->model->segments[i].name;
        segment->units = hil_store_declared(store, (int)i, &segment->unit);
    }
    out->outline = (hil_outline){
        .unit = out->unit,
        .units = units,
        .segment = out->segment,
        .segments = segments,
        .micros = (r->sequences + r->micro_batch - 1) / r->micro_batch,
        .training = r->training,
    };
    return HIL_OK;
}

static hil_status find_machine(const hil_plan_request *r, bool measure,
                               const hil_observer *observer, hil_planned *out)
{
    hil_probe_options probe = {.disks = r->allowance.disks,
                               .disk_count = r->allowance.disk_count,
                               .io = r->io,
                               .threads = r->threads,
                               .cache = r->probe_cache};
    if (measure)
        HIL_TRY(hil_machine_find(&probe, HIL_EFFORT_SHORT, observer, &out->machine));
    else
        hil_machine_assume(&probe, &out->machine);
    hil_budget_speeds(&out->machine, out->drives, r->allowance.disk_count);
    return HIL_OK;
}

static hil_budget less(hil_budget budget, int percent)
{
    budget.device -= budget.device / 100 * (size_t)percent;
    budget.host -= budget.host / 100 * (size_t)percent;
    return budget;
}

static hil_status rehearse(void *context, hil_plan *plan)
{
    return hil_rehearse(context, plan);
}

static hil_status choose(const hil_plan_request *r, hil_planned *out)
{
    hil_rehearsal rehearsal = {.model = r->model,
                               .compute = r->compute,
                               .training = r->training,
                               .sequences = r->sequences,
                               .length = r->length,
                               .micro_batch = r->micro_batch,
                               .cache = r->cache,
                               .speeds = &out->machine.speeds,
                               .drives = out->drives,
                               .drive_count = out->drive_count};
    hil_planner planner = {.outline = &out->outline,
                           .budget = less(out->budget, r->spare),
                           .prefetch = r->prefetch,
                           .recompute = r->recompute,
                           .zero = r->zero,
                           .rehearse = rehearse,
                           .context = &rehearsal};
    hil_plan_free(&out->plan);
    if (r->file) {
        HIL_TRY(hil_plan_read(&out->plan, &out->outline, r->file));
        out->plan.prefetch &= r->prefetch;
        return hil_planner_check(&planner, &out->plan);
    }
    HIL_TRY(hil_planner_choose(&planner, &out->plan));
    /* Once more, so that the store knows the order of this plan and no other. */
    return hil_rehearse(&rehearsal, &out->plan);
}

/* Nothing moves, whatever the speeds are. */
static bool is_settled(const hil_plan_request *r, const hil_plan *plan)
{
    for (size_t i = 0; i < plan->segments && r->training && !r->recompute; ++i)
        if (plan->segment[i].keep < plan->group) return false;
    return r->file || !(plan->to_device || plan->to_host || plan->disk_read || plan->disk_written ||
                        plan->gathered || plan->reduced);
}

hil_status hil_plan_make(const hil_plan_request *r, const hil_observer *observer, hil_planned *out)
{
    *out = (hil_planned){0};
    HIL_TRY(hil_budget_find(&r->allowance, &out->budget, out->drives));
    out->drive_count = (int)r->allowance.disk_count;
    HIL_TRY(hil_engine_trace(r->model, r->compute)); /* says how often each unit is used */
    HIL_TRY(outline_model(r, out));
    HIL_TRY(find_machine(r, r->measure && r->probe_cache, observer, out));
    HIL_TRY(choose(r, out));
    if (out->machine.measured || !r->probe_cache || is_settled(r, &out->plan)) return HIL_OK;
    HIL_TRY(find_machine(r, true, observer, out));
    return choose(r, out);
}

void hil_planned_free(hil_planned *planned)
{
    hil_plan_free(&planned->plan);
    hil_free(planned->unit);
    hil_free(planned->segment);
}
