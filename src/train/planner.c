/* planner.c - candidates: how many micro-batches pass a segment together, how much backward finds
   kept, where the values between segments wait.

   [Note: candidates] For each order of micro-batches (one at a time, or all of them through a
   segment) the memory of tensors is learned by rehearsals that place everything on the device. The
   largest share of kept activations that leaves room for a window is found by bisection; that
   share, half of it and none compete, because room that is not taken by activations holds weights.
 */
#include "train/planner.h"

#include "base/text.h"

#include <string.h>

#define LEVELS 16 /* shares of kept activations, from none to all */
#define BETTER 1.0

/* What tensors need, once it was learned. */
typedef struct lesson {
    bool known, works;
    size_t work, parked;
} lesson;

enum { GROUPS = 2 }; /* one micro-batch at a time, or all */

typedef struct choice {
    const hil_planner *planner;
    const hil_outline *outline;
    hil_plan trial, best;
    bool found;
    uint64_t least;   /* bytes of the device that computing needs at least */
    uint64_t working; /* of these, tensors */
    uint64_t missing; /* bytes of states that found no place, of the candidate that lacked least */
    uint64_t states;  /* bytes of all */
    lesson lessons[GROUPS][HIL_TIERS][LEVELS + 1];
} choice;

/* `level` of LEVELS of all (segment, micro-batch) pairs are kept: the last segments first, whose
   backward comes first. */
static void set_keep(hil_plan *plan, int level)
{
    int64_t pairs = plan->group * (int64_t)plan->segments;
    int64_t keep = pairs / LEVELS * level + pairs % LEVELS * level / LEVELS;
    for (size_t i = plan->segments; i-- > 0;) {
        int64_t here = keep < plan->group ? keep : plan->group;
        plan->segment[i].keep = here;
        keep -= here;
    }
}

static void begin(choice *c, int64_t group, hil_tier tier, int level)
{
    hil_plan *p = &c->trial;
    const hil_planner *planner = c->planner;
    p->group = group;
    p->prefetch = planner->prefetch;
    p->device_budget = planner->budget.device;
    p->host_budget = planner->budget.host;
    p->disk_budget = planner->budget.disk;
    p->spill = HIL_HOST;
    for (size_t i = 0; i < p->segments; ++i) p->segment[i].tier = (unsigned char)tier;
    set_keep(p, planner->recompute ? 0 : level);
}

/* Everything is on the device, without limit. */
static hil_status rehearse_tensors(choice *c, hil_tier tier)
{
    hil_plan *p = &c->trial;
    size_t window[HIL_WINDOWS];
    uint64_t missing;
    p->window = p->work = p->parked = p->spilled = 0;
    hil_budget endless = {SIZE_MAX / 2, SIZE_MAX / 2, 0};
    hil_plan_place(p, c->outline, &endless, &missing);
    hil_plan_windows(c->outline, window);
    p->window = (size_t)hil_plan_sums(c->outline) + window[HIL_WINDOWS - 1];
    if (tier == HIL_DISK && !p->ring) p->ring = (size_t)p->chunk * 16;
    return c->planner->rehearse(c->planner->context, p);
}

/* What tensors need, whatever states do. *works is false when they cannot be. */
static hil_status learn(choice *c, int64_t group, hil_tier tier, int level, bool *works)
{
    lesson *l = &c->lessons[group > 1][tier][level];
    begin(c, group, tier, level);
    if (!l->known) {
        hil_status status = rehearse_tensors(c, tier);
        if (status != HIL_ERR_MEMORY) HIL_TRY(status);
        *l = (lesson){true, status == HIL_OK, c->trial.work, c->trial.parked};
    }
    c->trial.work = l->work;
    c->trial.parked = l->parked;
    *works = l->works;
    return HIL_OK;
}

/* Sizes of the window to try, one after the other: one that leaves a fair part of the device, all
   that there is up to what is useful, and the smallest. False: it does not fit. With micro-batches
   one at a time all sums stay until the last one. */
enum { STEPS = 3 };
static bool choose_window(const choice *c, int step, size_t *out)
{
    const hil_plan *p = &c->trial;
    size_t window[HIL_WINDOWS];
    uint64_t device = c->planner->budget.device, sums = 0;
    hil_plan_windows(c->outline, window);
    if (p->group < c->outline->micros) sums = hil_plan_sums(c->outline);
    if (p->work + sums + window[0] > device) return false;
    uint64_t room = device - p->work - sums, most = step == 1 ? room : room / 2;
    int i = step == 2 ? 0 : HIL_WINDOWS - 1;
    while (i > 0 && window[i] > most) --i;
    uint64_t chosen = window[i];
    if (step == 1 && i < HIL_WINDOWS - 1) chosen = room / 4096 * 4096;
    *out = (size_t)(chosen + sums);
    return true;
}

static bool within(const choice *c, const hil_plan *p)
{
    const hil_budget *b = &c->planner->budget;
    uint64_t need[HIL_TIERS];
    hil_plan_needs(p, c->outline, need);
    return need[HIL_DEVICE] <= b->device && need[HIL_HOST] <= b->host &&
           need[HIL_DISK] <= b->disk && p->peak[HIL_DEVICE] <= b->device &&
           p->peak[HIL_HOST] <= b->host && p->peak[HIL_DISK] <= b->disk;
}

static void take_if_better(choice *c)
{
    if (c->found && !(c->trial.step_seconds < BETTER * c->best.step_seconds)) return;
    hil_plan_copy(&c->best, &c->trial);
    c->found = true;
}

/* The trial's tensors are learned: places its states and rehearses that, again while it turns out
   to need more than was thought. *ok: it works within the budgets. */
static hil_status try_places(choice *c, bool *ok)
{
    const hil_planner *planner = c->planner;
    hil_plan *p = &c->trial;
    *ok = false;
    for (int i = 0; i < 4; ++i) {
        uint64_t missing;
        hil_plan_place(p, c->outline, &planner->budget, &missing);
        if (missing && p->spilled && p->spill == HIL_HOST && planner->budget.disk) {
            p->spill = HIL_DISK;
            p->spilled = 0;
            continue;
        }
        if (missing) {
            if (missing < c->missing) c->missing = missing;
            return HIL_OK;
        }
        hil_status status = planner->rehearse(planner->context, p);
        if (status == HIL_ERR_MEMORY) return HIL_OK;
        HIL_TRY(status);
        if (within(c, p)) {
            *ok = true;
            take_if_better(c);
            return HIL_OK;
        }
        if (p->window + p->work > planner->budget.device) return HIL_OK;
    }
    return HIL_OK;
}

static hil_status try_level(choice *c, int64_t group, hil_tier tier, int level)
{
    size_t window;
    bool ok = false, works;
    HIL_TRY(learn(c, group, tier, level, &works));
    if (!works) return HIL_OK;
    hil_plan *p = &c->trial;
    size_t work = p->work, parked = p->parked;
    for (int step = 0; step < STEPS && !ok; ++step) {
        p->work = work;
        p->parked = parked;
        p->spilled = 0;
        p->spill = HIL_HOST;
        if (!choose_window(c, step, &window)) break;
        if (step > 0 && window == p->window) continue;
        p->window = window;
        HIL_TRY(try_places(c, &ok));
    }
    return HIL_OK;
}

/* Whether tensors and the smallest window fit on the device. */
static hil_status is_feasible(choice *c, int64_t group, hil_tier tier, int level, bool *out)
{
    size_t window, windows[HIL_WINDOWS];
    HIL_TRY(learn(c, group, tier, level, out));
    if (!*out) return HIL_OK;
    *out = choose_window(c, 0, &window) && c->trial.parked <= c->planner->budget.host;
    hil_plan_windows(c->outline, windows);
    uint64_t least = c->trial.work + windows[0];
    if (least < c->least) {
        c->least = least;
        c->working = c->trial.work;
    }
    return HIL_OK;
}

/* All levels of one order of micro-batches. */
static hil_status try_group(choice *c, int64_t group)
{
    static const hil_tier waiting[] = {HIL_DEVICE, HIL_HOST, HIL_DISK};
    int tiers = c->planner->budget.disk ? 3 : c->planner->budget.host ? 2 : 1, t = 0;
    bool ok = false;
    for (; t < tiers && !ok; ++t) HIL_TRY(is_feasible(c, group, waiting[t], 0, &ok));
    if (!ok) return HIL_OK;
    hil_tier tier = waiting[t - 1];
    int low = 0, high = LEVELS + 1; /* low is feasible, high is not */
    if (c->outline->training && !c->planner->recompute) {
        HIL_TRY(is_feasible(c, group, tier, LEVELS, &ok));
        if (ok)
            low = LEVELS;
        else
            high = LEVELS;
    } else {
        high = 1;
    }
    while (high - low > 1) {
        int middle = (low + high) / 2;
        HIL_TRY(is_feasible(c, group, tier, middle, &ok));
        if (ok)
            low = middle;
        else
            high = middle;
    }
    HIL_TRY(try_level(c, group, tier, low));
    if (low > 1) HIL_TRY(try_level(c, group, tier, low / 2));
    if (low > 0) HIL_TRY(try_level(c, group, tier, 0));
    return HIL_OK;
}

static bool is_all_on_device(const choice *c)
{
    hil_plan_table table;
    if (!c->found) return false;
    hil_plan_count(c->outline, &c->best, &table);
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        if (table.bytes[s][HIL_HOST] || table.bytes[s][HIL_DISK]) return false;
    for (size_t i = 0; i < c->best.segments && !c->planner->recompute; ++i)
        if (c->best.segment[i].keep < c->best.group) return false;
    return true;
}

static hil_status nothing_fits(const choice *c)
{
    const hil_budget *b = &c->planner->budget;
    char least[32], working[32], device[32], missing[32], states[32], host[32], disk[32];
    hil_text_bytes(device, b->device);
    hil_text_bytes(host, b->host);
    if (c->least > b->device)
        return hil_fail(
            HIL_ERR_MEMORY,
            "computing needs at least %s of device memory (%s of it for the tensors of "
            "a micro-batch), but it may use %s: give more --device-memory, or a smaller "
            "--micro-batch, --seq or --tile-size",
            hil_text_bytes(least, c->least), hil_text_bytes(working, c->working), device);
    hil_text_bytes(missing, c->missing == UINT64_MAX ? 0 : c->missing);
    hil_text_bytes(states, c->states);
    if (b->disk == 0)
        return hil_fail(HIL_ERR_MEMORY,
                        "%s are missing: %s of weights and their states do not fit beside the "
                        "tensors into %s of device and %s of host memory: give more --host-memory, "
                        "or --disk PATH",
                        missing, states, device, host);
    return hil_fail(HIL_ERR_MEMORY,
                    "%s are missing: %s of weights and their states do not fit beside the tensors "
                    "into %s of device memory, %s of host memory and %s of disk: give another "
                    "--disk, or more --host-memory",
                    missing, states, device, host, hil_text_bytes(disk, b->disk));
}

static hil_status choose(choice *c)
{
    for (size_t u = 0; u < c->outline->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            c->states += hil_outline_bytes(&c->outline->unit[u], s);
    /* Everything on the device, micro-batches one by one: nothing can be faster. */
    HIL_TRY(try_level(c, 1, HIL_DEVICE, LEVELS));
    if (is_all_on_device(c)) return HIL_OK;
    if (c->outline->micros > 1) HIL_TRY(try_group(c, c->outline->micros));
    HIL_TRY(try_group(c, 1));
    return c->found ? HIL_OK : nothing_fits(c);
}

hil_status hil_planner_choose(const hil_planner *planner, hil_plan *out)
{
    choice c = {.planner = planner,
                .outline = planner->outline,
                .least = UINT64_MAX,
                .missing = UINT64_MAX};
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_plan_create(&c.trial, planner->outline));
    HIL_TRY_DONE(hil_plan_create(&c.best, planner->outline));
    HIL_TRY_DONE(choose(&c));
    *out = c.best;
    c.best = (hil_plan){0};
done:
    hil_plan_free(&c.trial);
    hil_plan_free(&c.best);
    return status;
}

hil_status hil_planner_check(const hil_planner *planner, hil_plan *plan)
{
    static const char *const names[HIL_TIERS] = {"device memory", "host memory", "disk"};
    const hil_budget *b = &planner->budget;
    const uint64_t budget[HIL_TIERS] = {b->device, b->host, b->disk};
    uint64_t need[HIL_TIERS];
    char a[32], z[32];
    plan->device_budget = b->device;
    plan->host_budget = b->host;
    plan->disk_budget = b->disk;
    HIL_TRY(planner->rehearse(planner->context, plan));
    hil_plan_needs(plan, planner->outline, need);
    for (int t = 0; t < HIL_TIERS; ++t) {
        if (plan->peak[t] > need[t]) need[t] = plan->peak[t];
        if (need[t] > budget[t])
            return hil_fail(HIL_ERR_MEMORY, "this plan needs %s of %s, but it may use %s",
                            hil_text_bytes(a, need[t]), names[t], hil_text_bytes(z, budget[t]));
    }
    return HIL_OK;
}
