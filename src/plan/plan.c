/* plan.c - collects budgets, speeds and the outline of the model, then makes the plan. */
#include "plan/plan.h"

#include "autograd/cost.h"
#include "autograd/engine.h"
#include "autograd/batch_input.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "comm/facts.h"
#include "store/unit.h"
#include "machine/devices.h"
#include "plan/plan_file.h"

#include <stdio.h>

#define PLAN_MEMORY ((uint64_t)64 << 20) /* most memory for measuring when there is no run */

/* Embedding and head stand for themselves. */
static void set_represented(hil_planned *out, const int64_t *stands)
{
    for (size_t i = 1; i + 1 < out->outline.segments; ++i) {
        hil_outline_segment *segment = &out->segment[i];
        segment->count = stands[i - 1];
        for (size_t u = 0; u < segment->units; ++u)
            out->unit[segment->unit[u]].count = segment->count;
    }
}

static hil_status outline_model(const hil_plan_request *r, hil_planned *out)
{
    const hil_store *store = r->model->store;
    size_t units = hil_store_units(store), segments = r->model->count;
    HIL_TRY(HIL_ALLOC(units, &out->unit));
    HIL_TRY(HIL_ALLOC(segments, &out->segment));
    HIL_TRY(HIL_ALLOC(segments, &out->share));
    for (size_t u = 0; u < units; ++u) {
        hil_outline_unit *unit = &out->unit[u];
        char name[HIL_UNIT_NAME];
        snprintf(unit->name, sizeof unit->name, "%s", hil_unit_name(store, u, name));
        unit->elements = hil_unit_elements(store, u);
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            unit->bytes[s] = hil_unit_bytes(store, u, (hil_unit_state)s);
        if (unit->bytes[HIL_GRADIENT]) unit->uses = hil_unit_uses(store, u);
        unit->quant = hil_unit_quant(store, u);
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
        .saves = r->training,
        .adapter = hil_store_adapted(store),
        .ranks = hil_store_ranks(store),
        .lanes = hil_store_lanes(store),
        .matrix = hil_store_matrix_bytes(store),
    };
    if (r->stands) set_represented(out, r->stands);
    return HIL_OK;
}

/* Limits of the measurement: no more memory than the run may use. */
static hil_effort effort_of(const hil_plan_request *r, const hil_budget *budget)
{
    uint64_t memory = budget->host;
    if (!r->device) memory += budget->device;
    if (r->hypothetical && memory > PLAN_MEMORY) memory = PLAN_MEMORY;
    return (hil_effort){
        .drives = !r->hypothetical, .memory = memory, .device_memory = budget->device};
}

/* One rank of each machine measures while the others wait. */
static hil_status find_speeds(const hil_plan_request *r, bool measure, const hil_observer *observer,
                              hil_planned *planned)
{
    hil_machine *out = &planned->machine;
    hil_device *device = r->gpu ? NULL : r->device;
    hil_effort effort = effort_of(r, &planned->budget);
    hil_probe_options probe = {
        .memory = r->allowance.memory, .threads = r->threads, .cache = r->probe_cache};
    if (r->cluster) {
        hil_machine_assume(&probe, device, out);
        hil_cluster_speeds(r->cluster, out);
        return HIL_OK;
    }
    if (measure && hil_comm_local_rank(r->comm) == 0) {
        HIL_TRY(hil_machine_find(&probe, device, &effort, observer, out));
    } else {
        hil_machine_assume(&probe, device, out);
        out->measured = measure;
    }
    if (r->gpu) hil_gpu_speeds(r->gpu, &out->speeds);
    return HIL_OK;
}

/* Divides drives and CPUs among ranks, for a plan made without them. */
static void divide_machine(hil_machine *machine, int sharers, int drives)
{
    hil_speeds *s = &machine->speeds;
    if (sharers < 2) return;
    s->disk_read /= sharers;
    s->disk_write /= sharers;
    s->disk_mixed /= sharers;
    hil_ranks_share_cpus(s, s->cpus / sharers);
    for (int i = 0; i < drives; ++i) machine->drive[i].mixed /= sharers;
}

static hil_status find_machine(const hil_plan_request *r, bool measure,
                               const hil_observer *observer, hil_planned *out)
{
    hil_comm_set_activity(r->comm, "measuring the machine");
    HIL_TRY(hil_ranks_agree(r->comm, find_speeds(r, measure, observer, out)));
    HIL_TRY(hil_ranks_level_speeds(r->comm, &out->machine, out->drive_count, r->network));
    if (!r->comm && !r->cluster)
        divide_machine(&out->machine, r->allowance.sharers, out->drive_count);
    hil_budget_speeds(&out->machine, out->drives, r->allowance.memory.disk_count);
    return HIL_OK;
}

/* *out: every rank has a cache for speeds. */
static hil_status find_cache(const hil_plan_request *r, bool *out)
{
    double known = r->probe_cache != NULL;
    HIL_TRY(hil_comm_least(r->comm, &known, 1));
    *out = known > 0;
    return HIL_OK;
}

static hil_budget less(hil_budget budget, int percent)
{
    budget.device -= budget.device / 100 * (size_t)percent;
    budget.host -= budget.host / 100 * (size_t)percent;
    return budget;
}

/* A rehearsal that reports progress and can be stopped. */
typedef struct watched {
    hil_rehearsal rehearsal;
    const volatile int *stop;
    const hil_observer *observer;
    const hil_outline *outline;
    double begun_at;
    uint64_t done;
} watched;

#define QUIET_SECONDS 1.0
#define ABOUT 40 /* expected number of rehearsals, for progress */

/* Called before each rehearsal; has no influence on the choice. */
static hil_status check_watched(watched *w)
{
    const hil_observer *o = w->observer;
    if (w->stop && *w->stop) return hil_fail(HIL_ERR_INTERRUPTED, "stopped while planning");
    if (w->done + 1 < ABOUT) ++w->done;
    if (o && o->progress && hil_clock_now() - w->begun_at >= QUIET_SECONDS)
        o->progress(o->context, "planning", w->done, ABOUT);
    return HIL_OK;
}

static hil_status rehearse(void *context, hil_plan *plan)
{
    watched *w = context;
    uint64_t more[HIL_TIERS];
    HIL_TRY(check_watched(w));
    HIL_TRY(hil_rehearse_trial(&w->rehearsal, plan));
    hil_plan_represented(plan, w->outline, more);
    for (int t = 0; t < HIL_TIERS; ++t) plan->peak[t] += more[t];
    return HIL_OK;
}

static hil_status learn(void *context, hil_plan *plan, bool limited)
{
    watched *w = context;
    HIL_TRY(check_watched(w));
    return hil_rehearse_tensors(&w->rehearsal, plan, limited);
}

/* The machine's speeds for this model. */
static hil_speeds speeds_of(const hil_planned *planned)
{
    hil_speeds speeds = planned->machine.speeds;
    double bytes = 0;
    for (size_t u = 0; u < planned->outline.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            bytes += (double)hil_outline_bytes(&planned->outline.unit[u], s);
    speeds.cached = hil_cost_cached(&speeds, bytes);
    return speeds;
}

/* Tells the rehearsal what its layers stand for. */
static void represent(hil_planned *out, hil_rehearsal *rehearsal)
{
    size_t segments = out->outline.segments;
    double layers = 0;
    rehearsal->growth = hil_outline_growth(&out->outline);
    for (size_t i = 0; i < segments; ++i) {
        double times = (double)hil_outline_times(out->segment[i].count);
        out->share[i] = times / rehearsal->growth;
        if (i > 0 && i + 1 < segments) layers += times;
    }
    rehearsal->layers = layers / (double)(segments - 2);
    rehearsal->share = out->share;
}

static hil_status choose(const hil_plan_request *r, const hil_observer *observer, hil_planned *out)
{
    hil_speeds speeds = speeds_of(out);
    watched w = {.rehearsal = {.model = r->model,
                               .device = r->device,
                               .compute = r->compute,
                               .training = r->training,
                               .sequences = r->sequences,
                               .length = r->length,
                               .micro_batch = r->micro_batch,
                               .cache = r->cache,
                               .preference = r->preference,
                               .speeds = &speeds,
                               .drives = out->drives,
                               .drive_count = out->drive_count},
                 .stop = r->stop,
                 .observer = observer,
                 .outline = &out->outline,
                 .begun_at = hil_clock_now()};
    if (r->stands) represent(out, &w.rehearsal);
    hil_planner planner = {
        .outline = &out->outline,
        .budget = less(out->budget, r->spare),
        .tokens = out->tokens,
        .discrete = r->device != NULL,
        .connected = r->connected,
        .device_share = r->device ? hil_plan_device_share(&out->outline, &out->machine.speeds) : 0,
        .prefetch = r->prefetch,
        .recompute = r->recompute,
        .any = r->any,
        .zero = r->zero,
        .rehearse = rehearse,
        .learn = learn,
        .context = &w};
    hil_plan_free(&out->plan);
    if (r->file) {
        HIL_TRY(hil_plan_read(&out->plan, &out->outline, r->file));
        out->plan.prefetch &= r->prefetch;
        HIL_TRY(hil_planner_check(&planner, &out->plan));
    } else {
        HIL_TRY(hil_planner_choose(&planner, &out->plan));
    }
    w.rehearsal.trace = r->trace;
    /* Rehearse once more, so that the store knows the order of use of this plan. */
    if (!r->hypothetical) return hil_rehearse(&w.rehearsal, &out->plan);
    hil_plan same = out->plan;
    return r->trace ? hil_rehearse_trial(&w.rehearsal, &same) : HIL_OK;
}

/* Whether the choice cannot depend on speeds, because nothing moves. */
static bool is_settled(const hil_plan_request *r, const hil_plan *plan)
{
    for (size_t i = 0; i < plan->segments && r->training && !r->recompute; ++i)
        if (plan->segment[i].keep < plan->group) return false;
    return r->file || !(plan->to_device || plan->to_host || plan->disk_read || plan->disk_written ||
                        plan->gathered || plan->reduced);
}

static hil_status prepare(const hil_plan_request *r, hil_planned *out)
{
    hil_allowance allowance = r->allowance;
    if (r->comm) allowance.sharers = hil_comm_local_size(r->comm);
    if (r->device)
        allowance.room = hil_devices_room(r->device, allowance.room_sharers, r->connected);
    allowance.hypothetical = r->hypothetical;
    HIL_TRY(hil_budget_find(&allowance, &out->budget, out->drives));
    if (!r->hypothetical) HIL_TRY(hil_budget_check(&allowance, r->device, &out->budget));
    HIL_TRY(hil_engine_trace(r->model, r->compute)); /* finds how often each unit is used */
    return outline_model(r, out);
}

static hil_status choose_together(const hil_plan_request *r, const hil_observer *observer,
                                  hil_planned *out)
{
    hil_comm_set_activity(r->comm, "planning");
    HIL_TRY(hil_ranks_agree(r->comm, choose(r, observer, out)));
    out->plan.host_budget += out->tokens;
    out->plan.peak[HIL_HOST] += out->tokens;
    return HIL_OK;
}

/* Host bytes of a token of a step: with a device a pinned copy of the batch too, with kto a batch
   of mismatched answers, with orpo three arrays of the trainer's own; with a precomputed reference
   its losses, and its numbers of documents, which have two tokens or more. */
static int token_bytes(const hil_plan_request *r)
{
    int bytes = HIL_TOKEN_BYTES * (r->device ? 2 : 1);
    if (r->preference.precomputed) bytes += HIL_REFERENCE_BYTES * (r->device ? 2 : 1) + 8;
    if (r->preference.kind == HIL_PREFER_KTO && r->preference.precomputed)
        bytes += HIL_REFERENCE_BYTES;
    if (r->preference.kind == HIL_PREFER_KTO) bytes += HIL_TOKEN_BYTES;
    if (r->preference.kind == HIL_PREFER_ORPO) bytes += 3 * (int)sizeof(int32_t);
    return bytes;
}

/* Reserves host memory for the tokens of a step. */
static hil_status reserve_tokens(const hil_plan_request *r, hil_planned *out)
{
    uint64_t bytes = (uint64_t)(r->sequences * r->length) * (uint64_t)token_bytes(r);
    char need[32], have[32];
    if (bytes >= out->budget.host)
        return hil_fail(HIL_ERR_BUDGET,
                        "the tokens of a batch take %s of host memory (%lld x %lld tokens of %d "
                        "bytes), but it may use %s: give more --host-memory, or a smaller --batch",
                        hil_text_bytes(need, bytes), (long long)r->sequences, (long long)r->length,
                        token_bytes(r), hil_text_bytes(have, out->budget.host));
    out->tokens = (size_t)bytes;
    out->budget.host -= (size_t)bytes;
    return HIL_OK;
}

hil_status hil_plan_make(const hil_plan_request *r, const hil_observer *observer, hil_planned *out)
{
    bool cache;
    *out = (hil_planned){.drive_count = (int)r->allowance.memory.disk_count};
    HIL_TRY(hil_ranks_agree(r->comm, prepare(r, out)));
    HIL_TRY(hil_ranks_level_budget(r->comm, &out->budget, out->drives, out->drive_count));
    HIL_TRY(hil_ranks_agree(r->comm, reserve_tokens(r, out)));
    HIL_TRY(find_cache(r, &cache));
    HIL_TRY(find_machine(r, r->hypothetical && cache, observer, out));
    HIL_TRY(choose_together(r, observer, out));
    if (r->cluster || out->machine.measured || !cache || is_settled(r, &out->plan)) return HIL_OK;
    HIL_TRY(find_machine(r, true, observer, out));
    return choose_together(r, observer, out);
}

void hil_planned_free(hil_planned *planned)
{
    hil_plan_free(&planned->plan);
    hil_free(planned->unit);
    hil_free(planned->segment);
    hil_free(planned->share);
}

static hil_status add_json(hil_facts *facts, const char *name, const json_t *value)
{
    char label[64], *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) return hil_fail(HIL_ERR_MEMORY, "no memory is left to compare plans");
    snprintf(label, sizeof label, "the plan's %s", name);
    hil_status status = hil_facts_add(facts, label, "%s", text);
    free(text);
    return status;
}

/* Adds units and segments one by one, so that a mismatch names the first that differs. */
static hil_status add_plan(hil_facts *facts, const json_t *plan)
{
    const char *key;
    json_t *value, *item;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)plan, key, value)
    {
        if (!json_is_array(value)) HIL_TRY(add_json(facts, key, value));
        json_array_foreach(value, i, item) HIL_TRY(add_json(facts, key, item));
    }
    return HIL_OK;
}

hil_status hil_planned_compare(hil_comm *comm, const hil_planned *planned)
{
    hil_facts facts = {0};
    json_t *plan = NULL;
    if (hil_comm_size(comm) == 1) return HIL_OK;
    hil_status mine = hil_plan_write_decided(&planned->outline, &planned->plan, &plan);
    if (mine == HIL_OK) mine = add_plan(&facts, plan);
    hil_status status =
        hil_facts_compare(comm, &facts, mine, "give all ranks the same options and plan file");
    json_decref(plan);
    hil_facts_free(&facts);
    return status;
}
