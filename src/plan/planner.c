/* planner.c - tries candidates: how many micro-batches pass a segment together, how many
   activations are kept for backward, on which tier the values between segments are kept.

   [Note: candidates] Groups are one micro-batch, or many (hil_choice_large_group). For each,
   rehearsals with everything on the device find the memory of tensors. The level says what is kept
   for backward: nothing, lean tapes, or whole tapes, in the order of time saved per byte. Bisection
   finds the highest level that leaves room for a window. That level, half of it and none are
   rehearsed in full, because memory without activations holds weights; then levels near the winner.
   Values between segments are on the first tier that works; where they take much of a GPU's memory,
   on the host as well.
   A part of what the winner recomputes may be offloaded to the host instead: about as much as the
   bus carries while forward computes; the same for the best plan with one micro-batch at a time.
   Skipped are candidates whose computing alone takes longer than the best plan's step (for large
   models: hardly less long), and other windows for a winner that hardly stalls. */
#include "plan/candidate.h"

#include "io/align.h"

#include <math.h>

#define OUTPUTS_PART                                                                               \
    16 /* of the device, that values between segments take at least: try_outputs                   \
        */

void hil_choice_begin(hil_choice *c, hil_candidate at)
{
    hil_plan *p = &c->trial;
    const hil_planner *planner = c->planner;
    p->group = at.group;
    p->keeps_sums = p->late_moments = false;
    p->discrete = planner->discrete;
    p->connected = planner->connected;
    p->device_share = c->device_share;
    p->device_slots = c->device_share > 0 ? HIL_DEVICE_SLOTS : 0;
    p->prefetch = planner->prefetch;
    p->zero = c->zero;
    p->by_segment = c->by_segment;
    p->device_budget = planner->budget.device;
    p->host_budget = planner->budget.host;
    p->disk_budget = planner->budget.disk;
    p->spill = HIL_HOST;
    for (size_t i = 0; i < p->segments; ++i)
        p->segment[i] = (hil_segment_place){.tier = (unsigned char)at.tier};
    hil_plan_keep(p, planner->recompute ? 0 : at.level);
}

hil_status hil_choice_rehearse_tensors(hil_choice *c, hil_tier tier, bool limited,
                                       hil_tensor_needs *out)
{
    const hil_planner *planner = c->planner;
    hil_plan *p = &c->trial;
    uint64_t missing, window[HIL_WINDOWS];
    p->work = p->offloaded = p->spilled = 0;
    p->compute_seconds = 0;
    p->peak[HIL_DISK] = 0;
    hil_budget endless = {SIZE_MAX / 2, SIZE_MAX / 2, 0};
    hil_plan_windows(c->outline, false, window);
    p->window = (size_t)(hil_plan_sums(c->outline) + window[HIL_WINDOW_AHEAD]);
    hil_plan_place(p, c->outline, &endless, &missing); /* chunks as large as this window allows */
    if (tier == HIL_DISK && !p->ring) p->ring = (size_t)p->chunk * 16;
    hil_status status = planner->learn ? planner->learn(planner->context, p, limited)
                                       : planner->rehearse(planner->context, p);
    *out = (hil_tensor_needs){.known = true,
                              .works = status == HIL_OK,
                              .work = p->work,
                              .offloaded = p->offloaded,
                              .disk = p->peak[HIL_DISK],
                              .computing = p->compute_seconds};
    return status == HIL_ERR_BUDGET ? HIL_OK : status;
}

hil_status hil_choice_learn(hil_choice *c, hil_candidate at, bool *works)
{
    hil_tensor_needs *l = &c->needs[at.group > 1][at.tier][at.level];
    hil_choice_begin(c, at);
    /* Of single micro-batches the message needs the exact bytes. */
    bool limited = at.group > 1 && c->outline->training;
    if (!l->known) HIL_TRY(hil_choice_rehearse_tensors(c, at.tier, limited, l));
    c->trial.work = l->work;
    c->trial.offloaded = l->offloaded;
    *works = l->works;
    return HIL_OK;
}

uint64_t hil_choice_room(const hil_choice *c)
{
    uint64_t device = c->planner->budget.device;
    uint64_t besides = hil_plan_besides(&c->trial, c->outline);
    return device > besides ? device - besides : 0;
}

/* The smallest window, with the sums that must not be evicted. */
static uint64_t least_window(const hil_choice *c, const uint64_t w[HIL_WINDOWS])
{
    if (c->zero < 3) return w[HIL_WINDOW_WHOLE];
    return w[c->by_segment ? HIL_WINDOW_SEGMENT : HIL_WINDOW_LEAST];
}
/* With micro-batches one at a time, sums would evict the weights that ZeRO stage 2 keeps. */
static uint64_t least_sums(const hil_choice *c)
{
    bool stay = c->zero == 1 || (c->zero == 2 && c->trial.group < c->outline->micros);
    return stay ? hil_plan_sums(c->outline) : 0;
}

/* With micro-batches one at a time all sums stay until the last one, where there is room for them;
   otherwise they leave the device and come back, which over a bus is never worth it where all
   micro-batches can pass together. */
static uint64_t wanted_sums(const hil_choice *c)
{
    return c->trial.group < c->outline->micros ? hil_plan_sums(c->outline) : least_sums(c);
}

/* Micro-batches pass a segment together that has no room: each visit moves what does not fit. */
static bool is_crowded(const hil_choice *c, uint64_t room)
{
    uint64_t w[HIL_WINDOWS];
    hil_plan_windows(c->outline, false, w);
    return c->trial.group > 1 && !c->trial.discrete && w[HIL_WINDOW_SEGMENT] > room;
}

bool hil_choice_window(const hil_choice *c, hil_choice_step how, size_t *out)
{
    const hil_plan *p = &c->trial;
    uint64_t device = hil_choice_room(c), work = hil_align_up(p->work);
    uint64_t w[HIL_WINDOWS], sums = wanted_sums(c);
    hil_plan_windows(c->outline, how == HIL_STEP_RESIDENT, w);
    uint64_t least = least_window(c, w);
    if (work + hil_align_up(sums + least) > device) {
        if (p->discrete && c->found) return false;
        sums = least_sums(c);
    }
    if (work + hil_align_up(sums + least) > device) return false;
    uint64_t room = (device - work - sums) / 4096 * 4096, most = room, want = w[HIL_WINDOW_AHEAD];
    if (how == HIL_STEP_FAIR && !p->discrete && !is_crowded(c, room / 4 * 3)) most = room / 4 * 3;
    if (how == HIL_STEP_RESIDENT) want = sums ? least : w[HIL_WINDOW_SEGMENT];
    if (p->discrete) want += w[HIL_WINDOW_LEAST]; /* gaps must not make sums cross the bus */
    if (how == HIL_STEP_LEAST) want = least;
    if (how == HIL_STEP_WHOLE) want = w[HIL_WINDOW_WHOLE];
    if (how == HIL_STEP_WHOLE && want > room) return false;
    if (want > most && w[HIL_WINDOW_SEGMENT] <= room && !p->discrete) want = w[HIL_WINDOW_SEGMENT];
    if (want > most) want = most;
    if (want < least) want = least;
    *out = (size_t)(want + sums);
    return true;
}

static void take_if_better(hil_choice *c)
{
    if (c->trial.group == 1 &&
        (!c->single_found || hil_choice_cost(&c->trial) < hil_choice_cost(&c->single))) {
        hil_plan_copy(&c->single, &c->trial);
        c->single_at = c->at;
        c->single_found = true;
    }
    if (c->planner->discrete && hil_choice_alone(c) && hil_choice_states_on_device(c, &c->trial) &&
        (!c->resident_found || hil_choice_cost(&c->trial) < hil_choice_cost(&c->resident))) {
        hil_plan_copy(&c->resident, &c->trial);
        c->resident_at = c->at;
        c->resident_found = true;
    }
    if (c->found && !(hil_choice_cost(&c->trial) < hil_choice_cost(&c->best))) return;
    hil_plan_copy(&c->best, &c->trial);
    c->best_at = c->at;
    c->found = true;
}

/* With nothing found so far, leaves the device memory that tensors need to them, if the window can
   be smaller. */
static bool shrink_window(hil_choice *c)
{
    hil_plan *p = &c->trial;
    uint64_t w[HIL_WINDOWS], work = hil_align_up(p->work), device = hil_choice_room(c);
    hil_plan_windows(c->outline, false, w);
    uint64_t least = least_window(c, w) + least_sums(c);
    if (c->found || work + hil_align_up(least) > device) return false;
    hil_choice_set_window(c, (size_t)((device - work) / 4096 * 4096));
    return true;
}

hil_status hil_choice_try_places(hil_choice *c, hil_choice_step how, bool *ok)
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
        missing = hil_choice_missing(c, missing);
        if (missing || (how == HIL_STEP_RESIDENT && !hil_choice_resident(c, p))) return HIL_OK;
        hil_status status = hil_rehearsal_cache_rehearse(&c->cache, planner, p);
        if (status == HIL_ERR_BUDGET) return HIL_OK;
        HIL_TRY(status);
        if (hil_choice_fits(c, p)) {
            *ok = true;
            take_if_better(c);
            return HIL_OK;
        }
        if (p->window + p->work > hil_choice_room(c) && !shrink_window(c)) return HIL_OK;
    }
    return HIL_OK;
}

/* Whether its computing alone takes longer than a step of the best plan. */
static bool is_slower(const hil_choice *c, hil_candidate at)
{
    double most = c->found ? hil_choice_cost(&c->best) : INFINITY;
    return c->needs[at.group > 1][at.tier][at.level].computing >= most;
}

/* Rehearses the candidate with such a window, even if its computing takes long. */
static hil_status try_window(hil_choice *c, hil_candidate at, hil_choice_step how, bool *ok)
{
    size_t window;
    HIL_TRY(hil_choice_learn(c, at, ok));
    c->at = at;
    *ok = *ok && hil_choice_window(c, how, &window);
    if (!*ok) return HIL_OK;
    hil_choice_set_window(c, window);
    c->trial.spilled = hil_plan_leaving_sums(&c->trial, c->outline);
    HIL_TRY(hil_choice_try_places(c, how, ok));
    hil_choice_note_work(c);
    return HIL_OK;
}

static hil_status try_step(hil_choice *c, hil_candidate at, hil_choice_step how, bool *ok)
{
    *ok = false;
    if (how == (hil_choice_alone(c) ? HIL_STEP_WHOLE : HIL_STEP_RESIDENT)) return HIL_OK;
    HIL_TRY(hil_choice_learn(c, at, ok));
    *ok = *ok && !is_slower(c, at);
    return *ok ? try_window(c, at, how, ok) : HIL_OK;
}

/* Tries a window for sums only if that is enough, else FAIR, else any that works. */
static hil_status try_candidate(hil_choice *c, hil_candidate at, bool *ok)
{
    static const hil_choice_step steps[] = {HIL_STEP_RESIDENT, HIL_STEP_FAIR, HIL_STEP_LEAST,
                                            HIL_STEP_ALL};
    *ok = false;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !*ok; ++i)
        HIL_TRY(try_step(c, at, steps[i], ok));
    return HIL_OK;
}

/* Whether tensors and the smallest window fit on the device. */
static hil_status is_feasible(hil_choice *c, hil_candidate at, bool *out)
{
    size_t window;
    uint64_t windows[HIL_WINDOWS];
    HIL_TRY(hil_choice_learn(c, at, out));
    if (!*out) return HIL_OK;
    *out = hil_choice_window(c, HIL_STEP_LEAST, &window) &&
           c->trial.offloaded <= c->planner->budget.host;
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

/* Rough memory of a level: what a lean tape leaves out is a third of a whole tape. */
static int room_of(int level)
{
    return level < HIL_LEVEL_LEAN ? 2 * level : level + HIL_LEVEL_LEAN;
}

/* Interpolates between two levels with known needs: the level that should just fit. */
static int guess_level(const hil_choice *c, const hil_candidate *at, int low, int high)
{
    const hil_tensor_needs *l = c->needs[at->group > 1][at->tier];
    uint64_t windows[HIL_WINDOWS], device = hil_choice_room(c);
    int middle = (low + high) / 2;
    hil_plan_windows(c->outline, false, windows);
    uint64_t need = least_window(c, windows);
    need += c->trial.discrete && c->found ? wanted_sums(c) : least_sums(c);
    if (!l[high].works || l[high].work <= l[low].work || device < need + l[low].work) return middle;
    double part = (double)(device - need - l[low].work) / (double)(l[high].work - l[low].work);
    double room = room_of(low) + part * (room_of(high) - room_of(low));
    int guess = low + 1;
    while (guess + 1 < high && room_of(guess + 1) <= room) ++guess;
    return guess;
}

/* The largest feasible level, given that the lowest is. */
static hil_status find_level(hil_choice *c, hil_candidate *at)
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

/* Tries all levels for one group size, with the values between segments on one tier. */
static hil_status try_tier(hil_choice *c, hil_candidate at, bool *works)
{
    bool ok;
    *works = false;
    HIL_TRY(is_feasible(c, at, &ok));
    if (!ok) return HIL_OK;
    if (!c->planner->any) HIL_TRY(find_level(c, &at));
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

/* Takes the first tier that works: tensors that fit may leave too small a window. */
static hil_status try_group(hil_choice *c, int64_t group)
{
    int tiers = c->planner->budget.disk ? 3 : c->planner->budget.host ? 2 : 1;
    bool works = false;
    for (int t = 0; t < tiers && !works; ++t)
        HIL_TRY(try_tier(c, (hil_candidate){.group = group, .tier = (hil_tier)t}, &works));
    return HIL_OK;
}

/* Tries the levels that are `reach` from the winner's. */
static hil_status try_levels(hil_choice *c, int reach)
{
    const hil_candidate winner = c->best_at;
    for (int side = -1; side <= 1 && reach; side += 2) {
        hil_candidate at = winner;
        bool ok;
        at.level += side * reach;
        if (at.level > 0 && at.level < at.most) HIL_TRY(try_candidate(c, at, &ok));
    }
    return HIL_OK;
}

/* Levels nearer and nearer to that of a winner that offloads no activations: on a device with its
   own memory a state less in RAM may be worth more than a tape. */
static hil_status refine_level(hil_choice *c)
{
    if (!c->planner->discrete) return HIL_OK;
    for (size_t i = 0; i < c->best.segments; ++i)
        if (c->best.segment[i].tapes != HIL_DEVICE) return HIL_OK;
    for (int reach = c->best_at.most / 8; reach; reach /= 2) HIL_TRY(try_levels(c, reach));
    return HIL_OK;
}

/* The highest level that leaves all states on a device with its own memory: also where another plan
   is faster, because activations that it computes again can be offloaded. */
static hil_status fill_device(hil_choice *c)
{
    hil_candidate at = c->best_at;
    int low = -1, high = at.most + 1; /* states fit, do not fit */
    if (!c->planner->discrete || !hil_choice_alone(c) || !c->outline->training) return HIL_OK;
    if (hil_choice_states_on_device(c, &c->best)) return HIL_OK;
    while (high - low > 1 && !c->planner->recompute) {
        bool ok;
        at.level = (low + high) / 2;
        HIL_TRY(try_window(c, at, HIL_STEP_RESIDENT, &ok));
        *(ok ? &low : &high) = at.level;
    }
    return HIL_OK;
}

/* Whether no other window can save more than a thousandth of the winner's time. */
static bool is_computing(const hil_choice *c)
{
    return hil_choice_cost(&c->best) <= 1.001 * c->best.compute_seconds;
}

/* The winner again, with other levels and windows. */
static hil_status refine(hil_choice *c)
{
    bool ok;
    HIL_TRY(try_levels(c, c->best_at.most / 4));
    hil_candidate at = c->best_at;
    if (is_computing(c)) return HIL_OK;
    if (hil_choice_alone(c) && hil_choice_resident(c, &c->best)) return HIL_OK;
    HIL_TRY(try_step(c, at, HIL_STEP_WHOLE, &ok));
    if (!is_crowded(c, c->best.window)) HIL_TRY(try_step(c, at, HIL_STEP_LEAST, &ok));
    HIL_TRY(try_step(c, at, HIL_STEP_ALL, &ok));
    if (!(c->device_share > 0)) return HIL_OK;
    for (int i = 0; i < 2; ++i) {
        c->device_share = i ? 0 : c->planner->device_share / 2;
        HIL_TRY(try_step(c, at, HIL_STEP_FAIR, &ok));
    }
    return HIL_OK;
}

/* The winner again, with the values between segments in host memory, where those of a device with
   its own memory take much of it: weights, states or tapes may be worth more there. */
static hil_status try_outputs(hil_choice *c)
{
    hil_candidate at = c->best_at;
    const hil_tensor_needs *here = &c->needs[at.group > 1][HIL_DEVICE][at.level];
    bool ok;
    if (!c->planner->discrete || at.tier != HIL_DEVICE || !c->planner->budget.host) return HIL_OK;
    at.tier = HIL_HOST;
    HIL_TRY(hil_choice_learn(c, at, &ok));
    if (!ok || c->trial.work + c->planner->budget.device / OUTPUTS_PART > here->work) return HIL_OK;
    HIL_TRY(try_candidate(c, at, &ok));
    HIL_TRY(try_step(c, at, HIL_STEP_WHOLE, &ok));
    if (c->best_at.tier != HIL_HOST) return HIL_OK;
    at.level = 0;
    return try_tier(c, at, &ok);
}

static bool is_enough(const hil_choice *c)
{
    return c->found && c->planner->any;
}

static hil_status try_groups(hil_choice *c)
{
    int64_t micros = c->outline->micros;
    bool large = micros > 1 && c->zero > 1;
    if (!c->planner->discrete) HIL_TRY(try_group(c, 1));
    if (large && !is_enough(c)) HIL_TRY(try_group(c, hil_choice_large_group(c->outline)));
    return c->planner->discrete && !is_enough(c) ? try_group(c, 1) : HIL_OK;
}

static hil_status try_all(hil_choice *c)
{
    bool ok;
    hil_choice_step first = hil_choice_alone(c) ? HIL_STEP_RESIDENT : HIL_STEP_WHOLE;
    /* Everything on the device, one micro-batch at a time: if it fits, nothing is faster. */
    const hil_candidate all = {1, HIL_DEVICE, HIL_LEVEL_ALL, HIL_LEVEL_ALL};
    if (!c->planner->any) HIL_TRY(try_step(c, all, first, &ok));
    if (hil_choice_all_on_device(c)) return HIL_OK;
    c->device_share = c->planner->device_share;
    HIL_TRY(try_groups(c));
    if (!c->found && c->device_share > 0) { /* updates on the device take room from tensors */
        c->device_share = 0;
        HIL_TRY(try_groups(c));
    }
    if (!c->found || c->planner->any) return HIL_OK;
    /* Of one rank states may stay on the device, and tapes leave it: that is worth more. */
    bool alone = hil_choice_alone(c);
    if (!alone) HIL_TRY(try_outputs(c));
    HIL_TRY(refine(c));
    HIL_TRY(fill_device(c));
    HIL_TRY(hil_choice_offload(c));
    if (alone) HIL_TRY(try_outputs(c));
    return refine_level(c);
}

static hil_status choose(hil_choice *c)
{
    uint64_t w[HIL_WINDOWS];
    for (size_t u = 0; u < c->outline->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            c->states += hil_outline_bytes(&c->outline->unit[u], s);
    /* Ranks may only take different paths where visits find all of their segment. */
    hil_plan_windows(c->outline, false, w);
    c->by_segment =
        !hil_choice_alone(c) && (c->zero < 3 || w[HIL_WINDOW_SEGMENT] <= c->planner->budget.device);
    HIL_TRY(try_all(c));
    if (!c->found && c->by_segment && c->zero == 3) {
        c->by_segment = false;
        HIL_TRY(try_all(c));
    }
    return c->found ? HIL_OK : hil_choice_refuse(c);
}

hil_status hil_planner_choose(const hil_planner *planner, hil_plan *out)
{
    hil_choice c = {.planner = planner,
                    .outline = planner->outline,
                    .zero = 3,
                    .least = UINT64_MAX,
                    .missing = UINT64_MAX};
    hil_status status = HIL_OK;
    if (!hil_choice_alone(&c) && planner->zero) c.zero = planner->zero;
    HIL_TRY_DONE(hil_plan_create(&c.trial, planner->outline));
    HIL_TRY_DONE(hil_plan_create(&c.best, planner->outline));
    HIL_TRY_DONE(hil_plan_create(&c.single, planner->outline));
    HIL_TRY_DONE(hil_plan_create(&c.resident, planner->outline));
    HIL_TRY_DONE(choose(&c));
    if (!planner->any) HIL_TRY_DONE(hil_choice_keep_expanded(&c));
    if (!planner->any) HIL_TRY_DONE(hil_choice_late_moments(&c));
    *out = c.best;
    c.best = (hil_plan){0};
done:
    hil_plan_free(&c.trial);
    hil_plan_free(&c.best);
    hil_plan_free(&c.single);
    hil_plan_free(&c.resident);
    hil_rehearsal_cache_free(&c.cache);
    return status;
}
