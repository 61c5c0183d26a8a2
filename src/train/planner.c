/* planner.c - candidates: how many micro-batches pass a segment together, how much backward finds
   kept, where the values between segments wait.

   [Note: candidates] For each order of micro-batches (one at a time, or all of them through a
   segment) the memory of tensors is learned by rehearsals that place everything on the device. Of
   the activations nothing is kept, or all but what is cheap, or all: that is the order in which
   room buys time. The highest level of it that leaves room for a window is found by bisection; that
   level, half of it and none compete, because room that is not taken by activations holds weights;
   then levels beside the winner.
 */
#include "train/planner.h"

#include "base/text.h"
#include "io/align.h"

#include <stdio.h>
#include <string.h>

#define BUSY_COST 0.05
#define BUS_COST 0.01 /* of a bus, which takes little of a device's own memory */
#define GUESTS 4      /* chunks that visit the device at once: in, at work, out, and one to spare */

/* What tensors need, once it was learned. */
typedef struct lesson {
    bool known, works;
    size_t work, parked;
} lesson;

enum { WHOM = 40 };  /* bytes of "each of N ranks" */
enum { GROUPS = 2 }; /* one micro-batch at a time, or all */

/* What is tried: see the note above. */
typedef struct candidate {
    int64_t group;
    hil_tier tier; /* where values between segments wait */
    int level;     /* up to HIL_LEVEL_ALL: kept activations */
    int most;      /* the highest that works */
} candidate;

typedef struct choice {
    const hil_planner *planner;
    const hil_outline *outline;
    hil_plan trial, best;
    candidate at, best_at; /* of these */
    bool found;
    uint64_t least;   /* bytes of the device that computing needs at least */
    uint64_t working; /* of these, tensors */
    uint64_t missing; /* bytes of states that found no place, of the candidate that lacked least */
    uint64_t lacking_host; /* what it needs of the host where only that is too small; or 0 */
    uint64_t states;       /* bytes of all */
    int zero;              /* stage, where there are several ranks; otherwise 3 */
    bool by_segment;       /* windows hold all that a segment may use */
    double visiting;       /* what is tried: see hil_planner */
    lesson lessons[GROUPS][HIL_TIERS][HIL_LEVEL_ALL + 1];
} choice;

static void begin(choice *c, candidate at)
{
    hil_plan *p = &c->trial;
    const hil_planner *planner = c->planner;
    p->group = at.group;
    p->apart = planner->apart;
    p->wired = planner->wired;
    p->visiting = c->visiting;
    p->guests = c->visiting > 0 ? GUESTS : 0;
    p->prefetch = planner->prefetch;
    p->zero = c->zero;
    p->by_segment = c->by_segment;
    p->device_budget = planner->budget.device;
    p->host_budget = planner->budget.host;
    p->disk_budget = planner->budget.disk;
    p->spill = HIL_HOST;
    for (size_t i = 0; i < p->segments; ++i) p->segment[i].tier = (unsigned char)at.tier;
    hil_plan_keep(p, planner->recompute ? 0 : at.level);
}

/* Everything is on the device, without limit. */
static hil_status rehearse_tensors(choice *c, hil_tier tier)
{
    hil_plan *p = &c->trial;
    uint64_t missing, window[HIL_WINDOWS];
    p->window = p->work = p->parked = p->spilled = 0;
    hil_budget endless = {SIZE_MAX / 2, SIZE_MAX / 2, 0};
    hil_plan_place(p, c->outline, &endless, &missing);
    hil_plan_windows(c->outline, false, window);
    p->window = (size_t)(hil_plan_sums(c->outline) + window[HIL_WINDOW_AHEAD]);
    if (tier == HIL_DISK && !p->ring) p->ring = (size_t)p->chunk * 16;
    return c->planner->rehearse(c->planner->context, p);
}

/* What tensors need, whatever states do. *works is false when they cannot be. */
static hil_status learn(choice *c, candidate at, bool *works)
{
    lesson *l = &c->lessons[at.group > 1][at.tier][at.level];
    begin(c, at);
    if (!l->known) {
        hil_status status = rehearse_tensors(c, at.tier);
        if (status != HIL_ERR_BUDGET) HIL_TRY(status);
        *l = (lesson){true, status == HIL_OK, c->trial.work, c->trial.parked};
    }
    c->trial.work = l->work;
    c->trial.parked = l->parked;
    *works = l->works;
    return HIL_OK;
}

static bool is_alone(const choice *c)
{
    return hil_outline_ranks(c->outline) == 1;
}

/* Sizes of the window to try: one that leaves a fair part of the device, all that there is up to
   what is useful, the smallest; and one for sums alone where all weights live on the device, or for
   all weights where they do not live anywhere as a whole. */
typedef enum step { STEP_FAIR, STEP_ALL, STEP_LEAST, STEP_RESIDENT, STEP_WHOLE, STEPS } step;

/* Bytes of the device for tensors, window and states. */
static uint64_t device_room(const choice *c)
{
    uint64_t device = c->planner->budget.device;
    uint64_t besides = hil_plan_besides(&c->trial, c->outline);
    return device > besides ? device - besides : 0;
}

/* The smallest window, and what it needs besides for sums that must stay. */
static uint64_t least_window(const choice *c, const uint64_t w[HIL_WINDOWS])
{
    if (c->zero < 3) return w[HIL_WINDOW_WHOLE];
    return w[c->by_segment ? HIL_WINDOW_SEGMENT : HIL_WINDOW_LEAST];
}
/* Between micro-batches that come one at a time sums would push out weights, which stage 2 keeps.
 */
static uint64_t least_sums(const choice *c)
{
    bool stay = c->zero == 1 || (c->zero == 2 && c->trial.group < c->outline->micros);
    return stay ? hil_plan_sums(c->outline) : 0;
}

/* With micro-batches one at a time all sums stay until the last one, where there is room for them;
   otherwise they leave the device and come back, which over a bus is never worth it where all
   micro-batches can pass together. */
static uint64_t wanted_sums(const choice *c)
{
    return c->trial.group < c->outline->micros ? hil_plan_sums(c->outline) : least_sums(c);
}

/* False: it does not fit. */
static bool choose_window(const choice *c, step how, size_t *out)
{
    const hil_plan *p = &c->trial;
    uint64_t device = device_room(c), work = hil_align_up(p->work);
    uint64_t w[HIL_WINDOWS], sums = wanted_sums(c);
    hil_plan_windows(c->outline, how == STEP_RESIDENT, w);
    uint64_t least = least_window(c, w);
    if (work + hil_align_up(sums + least) > device) {
        if (p->apart && c->found) return false;
        sums = least_sums(c);
    }
    if (work + hil_align_up(sums + least) > device) return false;
    uint64_t room = (device - work - sums) / 4096 * 4096, most = room, want = w[HIL_WINDOW_AHEAD];
    if (how == STEP_FAIR && !p->apart) most = room / 4 * 3;
    if (how == STEP_RESIDENT) want = sums ? least : w[HIL_WINDOW_SEGMENT];
    if (p->apart) want += w[HIL_WINDOW_LEAST]; /* gaps must not make sums cross the bus */
    if (how == STEP_LEAST) want = least;
    if (how == STEP_WHOLE) want = w[HIL_WINDOW_WHOLE];
    if (how == STEP_WHOLE && want > room) return false;
    if (want > most && w[HIL_WINDOW_SEGMENT] <= room && !p->apart) want = w[HIL_WINDOW_SEGMENT];
    if (want > most) want = most;
    if (want < least) want = least;
    *out = (size_t)(want + sums);
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

/* Of two plans that take the same time the one that moves less is better: transfers take memory
   bandwidth from computing, which a rehearsal does not see. */
static double cost(const hil_plan *plan)
{
    double busy = 0;
    for (int i = 0; i < HIL_LINKS; ++i) busy += plan->busy[i];
    return plan->step_seconds + (plan->apart ? BUS_COST : BUSY_COST) * busy;
}

static void take_if_better(choice *c)
{
    if (c->found && !(cost(&c->trial) < cost(&c->best))) return;
    hil_plan_copy(&c->best, &c->trial);
    c->best_at = c->at;
    c->found = true;
}

static bool weights_resident(const choice *c, const hil_plan *plan)
{
    for (size_t u = 0; u < plan->units; ++u)
        if (c->outline->unit[u].bytes[HIL_WEIGHT] && plan->unit[u].tier[HIL_WEIGHT] != HIL_DEVICE)
            return false;
    return true;
}

static void note_missing(choice *c, uint64_t missing)
{
    uint64_t need[HIL_TIERS];
    hil_plan_needs(&c->trial, c->outline, need);
    c->missing = missing;
    c->lacking_host = 0;
    if (c->planner->budget.disk && need[HIL_DISK] <= c->planner->budget.disk)
        c->lacking_host = need[HIL_HOST];
}

/* The trial's tensors are learned and its window is chosen: places its states and rehearses that,
   again while it turns out to need more than was thought. *ok: it works within the budgets. */
static hil_status try_places(choice *c, step how, bool *ok)
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
        if (missing && missing < c->missing) note_missing(c, missing);
        if (missing || (how == STEP_RESIDENT && !weights_resident(c, p))) return HIL_OK;
        hil_status status = planner->rehearse(planner->context, p);
        if (status == HIL_ERR_BUDGET) return HIL_OK;
        HIL_TRY(status);
        if (within(c, p)) {
            *ok = true;
            take_if_better(c);
            return HIL_OK;
        }
        if (p->window + p->work > device_room(c)) return HIL_OK;
    }
    return HIL_OK;
}

static hil_status try_step(choice *c, candidate at, step how, bool *ok)
{
    size_t window;
    *ok = false;
    if (how == (is_alone(c) ? STEP_WHOLE : STEP_RESIDENT)) return HIL_OK;
    HIL_TRY(learn(c, at, ok));
    c->at = at;
    if (!*ok || !choose_window(c, how, &window)) {
        *ok = false;
        return HIL_OK;
    }
    c->trial.window = window;
    c->trial.spilled = 0;
    return try_places(c, how, ok);
}

/* Sums alone where that is enough, otherwise a fair window, otherwise any that works. */
static hil_status try_candidate(choice *c, candidate at, bool *ok)
{
    static const step steps[] = {STEP_RESIDENT, STEP_FAIR, STEP_LEAST, STEP_ALL};
    *ok = false;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !*ok; ++i)
        HIL_TRY(try_step(c, at, steps[i], ok));
    return HIL_OK;
}

/* Whether tensors and the smallest window fit on the device. */
static hil_status is_feasible(choice *c, candidate at, bool *out)
{
    size_t window;
    uint64_t windows[HIL_WINDOWS];
    HIL_TRY(learn(c, at, out));
    if (!*out) return HIL_OK;
    *out = choose_window(c, STEP_LEAST, &window) && c->trial.parked <= c->planner->budget.host;
    hil_plan_windows(c->outline, false, windows);
    uint64_t least = hil_align_up(c->trial.work) +
                     hil_align_up(least_window(c, windows) + least_sums(c)) +
                     hil_plan_besides(&c->trial, c->outline);
    if (least < c->least) {
        c->least = least;
        c->working = c->trial.work;
    }
    return HIL_OK;
}

/* Room that a level takes, roughly: what is cheap is a third of all. */
static int room_of(int level)
{
    return level < HIL_LEVEL_LEAN ? 2 * level : level + HIL_LEVEL_LEAN;
}

/* A level between two whose needs are known: where these reach what there is, if they grow as
   they should. */
static int guess_level(const choice *c, const candidate *at, int low, int high)
{
    const lesson *l = c->lessons[at->group > 1][at->tier];
    uint64_t windows[HIL_WINDOWS], device = device_room(c);
    int middle = (low + high) / 2;
    hil_plan_windows(c->outline, false, windows);
    uint64_t need = least_window(c, windows);
    need += c->trial.apart && c->found ? wanted_sums(c) : least_sums(c);
    if (!l[high].works || l[high].work <= l[low].work || device < need + l[low].work) return middle;
    double part = (double)(device - need - l[low].work) / (double)(l[high].work - l[low].work);
    double room = room_of(low) + part * (room_of(high) - room_of(low));
    int guess = low + 1;
    while (guess + 1 < high && room_of(guess + 1) <= room) ++guess;
    return guess;
}

/* The largest feasible level, given that the lowest is. */
static hil_status find_level(choice *c, candidate *at)
{
    int low = 0, high = HIL_LEVEL_ALL + 1; /* low is feasible, high is not */
    if (!c->outline->training || c->planner->recompute) return HIL_OK;
    while (high - low > 1) {
        bool ok;
        at->level = high > HIL_LEVEL_ALL ? HIL_LEVEL_ALL : guess_level(c, at, low, high);
        HIL_TRY(is_feasible(c, *at, &ok));
        if (ok)
            low = at->level;
        else
            high = at->level;
    }
    at->level = low;
    return HIL_OK;
}

/* All levels of one order of micro-batches, with values that wait on one tier. */
static hil_status try_tier(choice *c, candidate at, bool *works)
{
    bool ok;
    *works = false;
    HIL_TRY(is_feasible(c, at, &ok));
    if (!ok) return HIL_OK;
    HIL_TRY(find_level(c, &at));
    at.most = at.level;
    const int levels[] = {at.level, at.level / 2, 0};
    for (int i = 0; i < 3; ++i) {
        if (i > 0 && levels[i] == at.level) continue;
        at.level = levels[i];
        HIL_TRY(try_candidate(c, at, &ok));
        *works = *works || ok;
    }
    return HIL_OK;
}

/* The first tier that works: tensors that fit may still leave a window that is too small. */
static hil_status try_group(choice *c, int64_t group)
{
    int tiers = c->planner->budget.disk ? 3 : c->planner->budget.host ? 2 : 1;
    bool works = false;
    for (int t = 0; t < tiers && !works; ++t)
        HIL_TRY(try_tier(c, (candidate){.group = group, .tier = (hil_tier)t}, &works));
    return HIL_OK;
}

/* Levels between the winner's and its neighbours'. */
static hil_status refine_level(choice *c)
{
    const candidate winner = c->best_at;
    int reach = winner.most / 4;
    for (int side = -1; side <= 1 && reach; side += 2) {
        candidate at = winner;
        bool ok;
        at.level += side * reach;
        if (at.level > 0 && at.level < at.most) HIL_TRY(try_candidate(c, at, &ok));
    }
    return HIL_OK;
}

/* The winner again, with other levels and windows. */
static hil_status refine(choice *c)
{
    bool ok;
    HIL_TRY(refine_level(c));
    candidate at = c->best_at;
    if (is_alone(c) && weights_resident(c, &c->best)) return HIL_OK;
    HIL_TRY(try_step(c, at, STEP_WHOLE, &ok));
    HIL_TRY(try_step(c, at, STEP_LEAST, &ok));
    HIL_TRY(try_step(c, at, STEP_ALL, &ok));
    if (!(c->visiting > 0)) return HIL_OK;
    for (int i = 0; i < 2; ++i) {
        c->visiting = i ? 0 : c->planner->visiting / 2;
        HIL_TRY(try_step(c, at, STEP_FAIR, &ok));
    }
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

static hil_status stage_too_large(const choice *c)
{
    char least[32], device[32];
    return hil_fail(HIL_ERR_BUDGET,
                    "--zero %d keeps all weights%s in the device memory of every rank and needs at "
                    "least %s of it, but a rank may use %s: take --zero 3, or give more "
                    "--device-memory",
                    c->zero, c->zero == 1 ? " and all sums of gradients" : "",
                    hil_text_bytes(least, c->least),
                    hil_text_bytes(device, c->planner->budget.device));
}

/* Who is short of something: budgets in messages are those of one rank. */
static const char *whom_of(const choice *c, char text[WHOM], const char *alone, const char *before)
{
    if (is_alone(c)) return alone;
    snprintf(text, WHOM, "%seach of %d ranks", before, hil_outline_ranks(c->outline));
    return text;
}

/* All states have a place, but what comes and goes does not pass. */
static hil_status device_too_small(const choice *c)
{
    const hil_budget *b = &c->planner->budget;
    bool training = c->outline->training;
    char least[32], working[32], device[32], whom[WHOM];
    const char *what = training ? "a micro-batch" : "what is computed at once";
    const char *less =
        training ? "a smaller --micro-batch, --seq or --tile-size" : "compute fewer tokens at once";
    hil_text_bytes(working, c->working);
    hil_text_bytes(device, b->device);
    if (c->least <= b->device)
        return hil_fail(HIL_ERR_BUDGET,
                        "computing needs a little more device memory than the %s that %s may use "
                        "(%s for the tensors of %s): give more --device-memory%s, or %s",
                        device, whom_of(c, whom, "it", ""), working, what,
                        b->disk ? "" : " or --host-memory", less);
    return hil_fail(HIL_ERR_BUDGET,
                    "computing needs at least %s of device memory (%s of it for the tensors of "
                    "%s), but %s may use %s: give more --device-memory, or %s",
                    hil_text_bytes(least, c->least), working, what, whom_of(c, whom, "it", ""),
                    device, less);
}

static hil_status nothing_fits(const choice *c)
{
    const hil_budget *b = &c->planner->budget;
    const char *share = is_alone(c) ? "" : " (a machine's, which its ranks divide)";
    char whom[WHOM];
    char missing[32], states[32], device[32], host[32], disk[32];
    if (c->least > b->device && c->zero < 3) return stage_too_large(c);
    if (c->least > b->device || c->missing == UINT64_MAX) return device_too_small(c);
    hil_text_bytes(missing, c->missing);
    hil_text_bytes(states, c->states);
    hil_text_bytes(device, b->device);
    hil_text_bytes(host, b->host);
    if (c->lacking_host)
        return hil_fail(HIL_ERR_BUDGET,
                        "what goes to disk and comes back needs at least %s of host memory, but %s "
                        "may use %s: give more --host-memory%s",
                        hil_text_bytes(disk, c->lacking_host), whom_of(c, whom, "it", ""), host,
                        share);
    if (b->disk == 0)
        return hil_fail(
            HIL_ERR_BUDGET,
            "%s are missing%s: %s of weights and their states do not fit beside the "
            "tensors into %s of device and %s of host memory: give more --host-memory%s, "
            "or --disk PATH",
            missing, whom_of(c, whom, "", " on "), states, device, host, share);
    return hil_fail(
        HIL_ERR_BUDGET,
        "%s are missing%s: %s of weights and their states do not fit beside the tensors "
        "into %s of device memory, %s of host memory and %s of disk: give another "
        "--disk, or more --host-memory%s",
        missing, whom_of(c, whom, "", " on "), states, device, host, hil_text_bytes(disk, b->disk),
        share);
}

static hil_status try_groups(choice *c)
{
    if (c->outline->micros > 1 && c->zero > 1) HIL_TRY(try_group(c, c->outline->micros));
    return try_group(c, 1);
}

static hil_status try_all(choice *c)
{
    bool ok;
    step first = is_alone(c) ? STEP_RESIDENT : STEP_WHOLE;
    /* Everything on the device, micro-batches one by one: nothing can be faster. */
    HIL_TRY(try_step(c, (candidate){1, HIL_DEVICE, HIL_LEVEL_ALL, HIL_LEVEL_ALL}, first, &ok));
    if (is_all_on_device(c)) return HIL_OK;
    c->visiting = c->planner->visiting;
    HIL_TRY(try_groups(c));
    if (!c->found && c->visiting > 0) { /* guests take room that tensors may need */
        c->visiting = 0;
        HIL_TRY(try_groups(c));
    }
    return c->found ? refine(c) : HIL_OK;
}

static hil_status choose(choice *c)
{
    for (size_t u = 0; u < c->outline->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            c->states += hil_outline_bytes(&c->outline->unit[u], s);
    /* Ranks may only take different paths where visits find all of their segment. */
    c->by_segment = !is_alone(c);
    HIL_TRY(try_all(c));
    if (!c->found && c->by_segment && c->zero == 3) {
        c->by_segment = false;
        HIL_TRY(try_all(c));
    }
    return c->found ? HIL_OK : nothing_fits(c);
}

hil_status hil_planner_choose(const hil_planner *planner, hil_plan *out)
{
    choice c = {.planner = planner,
                .outline = planner->outline,
                .zero = 3,
                .least = UINT64_MAX,
                .missing = UINT64_MAX};
    hil_status status = HIL_OK;
    if (!is_alone(&c) && planner->zero) c.zero = planner->zero;
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
    plan->apart = planner->apart;
    plan->wired = planner->wired;
    hil_plan_visits(plan, planner->outline);
    plan->device_budget = b->device;
    plan->host_budget = b->host;
    plan->disk_budget = b->disk;
    if (ring && !b->disk)
        return hil_fail(HIL_ERR_BUDGET, "this plan keeps something on disk: give --disk PATH");
    if (plan->ring < ring) plan->ring = ring; /* an edit put something on disk */
    plan->work = plan->parked = plan->spilled = 0;
    hil_plan_needs(plan, planner->outline, need); /* before a rehearsal with absurd sizes */
    HIL_TRY(check_needs(b, need));
    HIL_TRY(planner->rehearse(planner->context, plan));
    hil_plan_needs(plan, planner->outline, need);
    for (int t = 0; t < HIL_TIERS; ++t)
        if (plan->peak[t] > need[t]) need[t] = plan->peak[t];
    return check_needs(b, need);
}
