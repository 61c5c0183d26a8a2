/* planner.c - tries candidates: how many micro-batches pass a segment together, how many
   activations are kept for backward, on which tier the values between segments are kept.

   [Note: candidates] Groups are one micro-batch, or many (hil_choice_large_group). For each,
   rehearsals with everything on the device find the memory of tensors. The level says what is kept
   for backward: nothing, lean tapes, or whole tapes, in the order of time saved per byte. Bisection
   finds the highest level that leaves room for a window. That level, half of it and none are
   rehearsed in full, because memory without activations holds weights; then levels near the winner.
   A part of what the winner recomputes may be offloaded to the host instead: about as much as the
   bus carries while forward computes; the same for the best plan with one micro-batch at a time.
   Skipped are candidates whose computing alone takes longer than the best plan's step (for large
   models: hardly less long), and other windows for a winner that hardly stalls. */
#include "plan/candidate.h"

#include "io/align.h"

#include <math.h>

#define PARKED_STEPS 3

static void begin(hil_choice *c, hil_candidate at)
{
    hil_plan *p = &c->trial;
    const hil_planner *planner = c->planner;
    p->group = at.group;
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

/* Rehearses the tensors with all states on the device. `limited`: within the budgets. */
static hil_status rehearse_tensors(hil_choice *c, hil_tier tier, bool limited,
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

/* Finds what tensors need, independent of where states are. *works: they fit. */
static hil_status learn(hil_choice *c, hil_candidate at, bool *works)
{
    hil_tensor_needs *l = &c->needs[at.group > 1][at.tier][at.level];
    begin(c, at);
    /* Of single micro-batches the message needs the exact bytes. */
    bool limited = at.group > 1 && c->outline->training;
    if (!l->known) HIL_TRY(rehearse_tensors(c, at.tier, limited, l));
    c->trial.work = l->work;
    c->trial.offloaded = l->offloaded;
    *works = l->works;
    return HIL_OK;
}

/* Sizes of the window to try. FAIR: leaves a good part of the device to states. ALL: as large as is
   useful. LEAST: the smallest. RESIDENT: for sums only, with all weights on the device. WHOLE: for
   all weights, if ranks divide them. */
typedef enum step { STEP_FAIR, STEP_ALL, STEP_LEAST, STEP_RESIDENT, STEP_WHOLE, STEPS } step;

/* Device memory for tensors, window and states. */
static uint64_t device_room(const hil_choice *c)
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

/* False: it does not fit. */
static bool choose_window(const hil_choice *c, step how, size_t *out)
{
    const hil_plan *p = &c->trial;
    uint64_t device = device_room(c), work = hil_align_up(p->work);
    uint64_t w[HIL_WINDOWS], sums = wanted_sums(c);
    hil_plan_windows(c->outline, how == STEP_RESIDENT, w);
    uint64_t least = least_window(c, w);
    if (work + hil_align_up(sums + least) > device) {
        if (p->discrete && c->found) return false;
        sums = least_sums(c);
    }
    if (work + hil_align_up(sums + least) > device) return false;
    uint64_t room = (device - work - sums) / 4096 * 4096, most = room, want = w[HIL_WINDOW_AHEAD];
    if (how == STEP_FAIR && !p->discrete && !is_crowded(c, room / 4 * 3)) most = room / 4 * 3;
    if (how == STEP_RESIDENT) want = sums ? least : w[HIL_WINDOW_SEGMENT];
    if (p->discrete) want += w[HIL_WINDOW_LEAST]; /* gaps must not make sums cross the bus */
    if (how == STEP_LEAST) want = least;
    if (how == STEP_WHOLE) want = w[HIL_WINDOW_WHOLE];
    if (how == STEP_WHOLE && want > room) return false;
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
    uint64_t w[HIL_WINDOWS], work = hil_align_up(p->work), device = device_room(c);
    hil_plan_windows(c->outline, false, w);
    uint64_t least = least_window(c, w) + least_sums(c);
    if (c->found || work + hil_align_up(least) > device) return false;
    p->window = (size_t)((device - work) / 4096 * 4096);
    return true;
}

/* Places the states of the trial, whose tensors and window are known, and rehearses it; repeats
   while it needs more than was assumed. *ok: it works within the budgets. */
static hil_status try_places(hil_choice *c, step how, bool *ok)
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
        if (missing || (how == STEP_RESIDENT && !hil_choice_resident(c, p))) return HIL_OK;
        hil_status status = hil_rehearsal_cache_rehearse(&c->cache, planner, p);
        if (status == HIL_ERR_BUDGET) return HIL_OK;
        HIL_TRY(status);
        if (hil_choice_fits(c, p)) {
            *ok = true;
            take_if_better(c);
            return HIL_OK;
        }
        if (p->window + p->work > device_room(c) && !shrink_window(c)) return HIL_OK;
    }
    return HIL_OK;
}

/* Whether its computing alone takes longer than a step of the best plan. */
static bool is_slower(const hil_choice *c, hil_candidate at)
{
    double most = c->found ? hil_choice_cost(&c->best) : INFINITY;
    return c->needs[at.group > 1][at.tier][at.level].computing >= most;
}

static hil_status try_step(hil_choice *c, hil_candidate at, step how, bool *ok)
{
    size_t window;
    *ok = false;
    if (how == (hil_choice_alone(c) ? STEP_WHOLE : STEP_RESIDENT)) return HIL_OK;
    HIL_TRY(learn(c, at, ok));
    c->at = at;
    *ok = *ok && !is_slower(c, at) && choose_window(c, how, &window);
    if (!*ok) return HIL_OK;
    c->trial.window = window;
    c->trial.spilled = hil_plan_leaving_sums(&c->trial, c->outline);
    HIL_TRY(try_places(c, how, ok));
    hil_choice_note_work(c);
    return HIL_OK;
}

/* Tries a window for sums only if that is enough, else FAIR, else any that works. */
static hil_status try_candidate(hil_choice *c, hil_candidate at, bool *ok)
{
    static const step steps[] = {STEP_RESIDENT, STEP_FAIR, STEP_LEAST, STEP_ALL};
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
    HIL_TRY(learn(c, at, out));
    if (!*out) return HIL_OK;
    *out = choose_window(c, STEP_LEAST, &window) && c->trial.offloaded <= c->planner->budget.host;
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
    uint64_t windows[HIL_WINDOWS], device = device_room(c);
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

/* Takes the first tier that works: tensors that fit may leave too small a window. */
static hil_status try_group(hil_choice *c, int64_t group)
{
    int tiers = c->planner->budget.disk ? 3 : c->planner->budget.host ? 2 : 1;
    bool works = false;
    for (int t = 0; t < tiers && !works; ++t)
        HIL_TRY(try_tier(c, (hil_candidate){.group = group, .tier = (hil_tier)t}, &works));
    return HIL_OK;
}

/* Tries levels between the winner's and its neighbours'. */
static hil_status refine_level(hil_choice *c)
{
    const hil_candidate winner = c->best_at;
    int reach = winner.most / 4;
    for (int side = -1; side <= 1 && reach; side += 2) {
        hil_candidate at = winner;
        bool ok;
        at.level += side * reach;
        if (at.level > 0 && at.level < at.most) HIL_TRY(try_candidate(c, at, &ok));
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
    HIL_TRY(refine_level(c));
    hil_candidate at = c->best_at;
    if (is_computing(c)) return HIL_OK;
    if (hil_choice_alone(c) && hil_choice_resident(c, &c->best)) return HIL_OK;
    HIL_TRY(try_step(c, at, STEP_WHOLE, &ok));
    if (!is_crowded(c, c->best.window)) HIL_TRY(try_step(c, at, STEP_LEAST, &ok));
    HIL_TRY(try_step(c, at, STEP_ALL, &ok));
    if (!(c->device_share > 0)) return HIL_OK;
    for (int i = 0; i < 2; ++i) {
        c->device_share = i ? 0 : c->planner->device_share / 2;
        HIL_TRY(try_step(c, at, STEP_FAIR, &ok));
    }
    return HIL_OK;
}

/* What is known about activations offloaded to the host. */
typedef struct offloaded {
    hil_candidate at;
    const hil_plan *winner;
    size_t work;
    double bytes, bus, saved; /* per pair: host bytes, seconds on the bus, seconds not recomputed */
    bool thin;                /* without what saves little time per byte: [Note: lean] in tape.h */
    bool tight;               /* the device lacks room for copies in flight */
} offloaded;

/* `pairs` of the winner keep on the host what backward needs, and do not compute it again. *ok: it
   works, and the bus has time for it. */
static hil_status try_offloaded(hil_choice *c, offloaded *known, int64_t pairs, bool *ok)
{
    const hil_plan *winner = known->winner;
    hil_plan *p = &c->trial;
    size_t window;
    *ok = false;
    begin(c, known->at);
    hil_plan_offload(p, pairs, known->thin);
    c->at = known->at;
    p->work = known->work;
    p->offloaded = winner->offloaded + (size_t)(known->bytes * (double)pairs);
    p->step_seconds = 0;
    known->tight = !choose_window(c, STEP_FAIR, &window);
    if (known->tight) return HIL_OK;
    p->window = window;
    p->spilled = hil_plan_leaving_sums(&c->trial, c->outline);
    HIL_TRY(try_places(c, STEP_FAIR, ok));
    if (!(p->step_seconds > 0)) return HIL_OK;
    known->tight = !*ok && p->window + p->work > device_room(c);
    int64_t fewer = hil_plan_recomputed(winner) - hil_plan_recomputed(p);
    if (fewer) known->saved = (winner->compute_seconds - p->compute_seconds) / (double)fewer;
    double waits = p->wait[HIL_WAIT_MEMORY] + p->wait[HIL_WAIT_ACTIVATIONS] -
                   winner->wait[HIL_WAIT_MEMORY] - winner->wait[HIL_WAIT_ACTIVATIONS];
    *ok = *ok && waits < known->saved * (double)pairs / 2;
    known->work = p->work;
    known->bytes = ((double)p->offloaded - (double)winner->offloaded) / (double)pairs;
    known->bus = (p->busy[HIL_LINK_OUT] - winner->busy[HIL_LINK_OUT]) / (double)pairs;
    return HIL_OK;
}

/* Pairs that the bus can carry while forward computes, a quarter longer than computing again; no
   more than the host has room for. */
static int64_t guess_offloaded(const hil_choice *c, const offloaded *known, int64_t most)
{
    const hil_plan *winner = known->winner;
    double forward = known->saved * (double)winner->group * (double)winner->segments * 5 / 4;
    double carried = known->bus > 0 ? forward / known->bus : (double)most;
    double host = (double)c->planner->budget.host * 0.99 - (double)winner->peak[HIL_HOST];
    host -= (double)known->work - (double)winner->work; /* states that leave the device for it */
    if (known->bytes > 0 && carried > host / known->bytes) carried = host / known->bytes;
    return carried < 1 ? 0 : carried < (double)most ? (int64_t)carried : most;
}

/* Finds the bytes of a pair on the host, where one micro-batch leaves all; makes tapes thin if that
   saves more time per byte. */
static hil_status choose_tapes(hil_choice *c, offloaded *known)
{
    const hil_candidate single = {.group = 1};
    hil_tensor_needs kind[2] = {{0}}; /* lean, thin */
    double saved[2] = {0};
    bool works;
    HIL_TRY(learn(c, single, &works)); /* with nothing kept */
    int64_t pairs = hil_plan_offloadable(&c->trial);
    if (!pairs) return HIL_OK;
    for (int i = 0; i < 2; ++i) {
        begin(c, single);
        hil_plan_offload(&c->trial, pairs, i == 1);
        HIL_TRY(rehearse_tensors(c, HIL_DEVICE, false, &kind[i]));
        saved[i] = c->needs[0][HIL_DEVICE][0].computing - kind[i].computing;
    }
    if (!kind[0].works || !kind[1].works) return HIL_OK;
    known->thin = saved[1] * (double)kind[0].offloaded > saved[0] * (double)kind[1].offloaded;
    known->bytes = (double)kind[known->thin].offloaded / (double)pairs;
    return HIL_OK;
}

/* Fewer pairs than the best plan offloads, while that is faster. */
static hil_status try_fewer(hil_choice *c, offloaded *known)
{
    int64_t pairs = c->best.group == known->winner->group
                        ? hil_plan_recomputed(known->winner) - hil_plan_recomputed(&c->best)
                        : 0;
    double before = INFINITY;
    while (pairs >= 8 && hil_choice_cost(&c->best) < before) {
        bool ok;
        before = hil_choice_cost(&c->best);
        pairs -= pairs / 8;
        HIL_TRY(try_offloaded(c, known, pairs, &ok));
    }
    return HIL_OK;
}

/* Where thin tapes of all pairs are best, the bus may have time for lean ones. */
static hil_status try_lean(hil_choice *c, offloaded *known)
{
    bool ok;
    begin(c, known->at);
    int64_t pairs = hil_plan_offloadable(&c->trial);
    int64_t rest = hil_plan_recomputed(&c->trial) - pairs;
    if (!known->thin || c->best.group != c->trial.group || hil_plan_recomputed(&c->best) > rest)
        return HIL_OK;
    known->thin = false;
    known->work = c->best.work;
    return try_offloaded(c, known, pairs, &ok);
}

/* The winner again, with activations that cross the bus: about as many as it can carry. */
static hil_status refine_offloaded(hil_choice *c, const hil_plan *winner, offloaded known)
{
    int64_t low = 0, most = hil_plan_offloadable(winner), pairs = (most + 3) / 4;
    bool guessed = false;
    known.winner = winner;
    known.work = winner->work + winner->work / 8;
    if (known.bytes * (double)pairs > (double)c->planner->budget.host)
        pairs = guess_offloaded(c, &known, most);
    for (int i = 0; i < PARKED_STEPS && pairs > low; ++i) {
        bool ok;
        HIL_TRY(try_offloaded(c, &known, pairs, &ok));
        if (known.tight && i == 0) { /* with less on the device */
            known.at.level /= 2;
            known.work = winner->work;
            begin(c, known.at);
            most = hil_plan_offloadable(&c->trial);
            continue;
        }
        int64_t guess = guess_offloaded(c, &known, most);
        if (ok)
            low = pairs;
        else
            most = pairs - 1;
        pairs = !guessed && guess <= most ? guess : ok ? low : (low + most) / 2;
        guessed = guessed || c->trial.step_seconds > 0;
    }
    HIL_TRY(try_fewer(c, &known));
    return try_lean(c, &known);
}

static hil_status try_groups(hil_choice *c)
{
    int64_t micros = c->outline->micros;
    bool large = micros > 1 && c->zero > 1;
    if (!c->planner->discrete) HIL_TRY(try_group(c, 1));
    if (large) HIL_TRY(try_group(c, hil_choice_large_group(c->outline)));
    return c->planner->discrete ? try_group(c, 1) : HIL_OK;
}

/* Of micro-batches one at a time the host holds the activations of one only: more of them may be
   offloaded than where all pass together. */
static hil_status offload(hil_choice *c)
{
    const hil_planner *planner = c->planner;
    offloaded known = {.at = c->best_at};
    hil_plan winner;
    if (planner->recompute || !c->outline->training || !planner->budget.host) return HIL_OK;
    c->device_share = 0; /* that would cross the bus as well */
    HIL_TRY(choose_tapes(c, &known));
    HIL_TRY(hil_plan_create(&winner, c->outline));
    hil_plan_copy(&winner, &c->best);
    hil_status status = refine_offloaded(c, &winner, known);
    if (status == HIL_OK && known.at.group > 1 && c->single_found && planner->discrete) {
        hil_plan_copy(&winner, &c->single);
        known.at = c->single_at;
        status = refine_offloaded(c, &winner, known);
    }
    hil_plan_free(&winner);
    return status;
}

static hil_status try_all(hil_choice *c)
{
    bool ok;
    step first = hil_choice_alone(c) ? STEP_RESIDENT : STEP_WHOLE;
    /* Everything on the device, one micro-batch at a time: if it fits, nothing is faster. */
    HIL_TRY(try_step(c, (hil_candidate){1, HIL_DEVICE, HIL_LEVEL_ALL, HIL_LEVEL_ALL}, first, &ok));
    if (hil_choice_all_on_device(c)) return HIL_OK;
    c->device_share = c->planner->device_share;
    HIL_TRY(try_groups(c));
    if (!c->found && c->device_share > 0) { /* updates on the device take room from tensors */
        c->device_share = 0;
        HIL_TRY(try_groups(c));
    }
    if (!c->found) return HIL_OK;
    HIL_TRY(refine(c));
    return offload(c);
}

static hil_status choose(hil_choice *c)
{
    for (size_t u = 0; u < c->outline->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            c->states += hil_outline_bytes(&c->outline->unit[u], s);
    /* Ranks may only take different paths where visits find all of their segment. */
    c->by_segment = !hil_choice_alone(c);
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
    HIL_TRY_DONE(choose(&c));
    HIL_TRY_DONE(hil_choice_keep_expanded(&c));
    *out = c.best;
    c.best = (hil_plan){0};
done:
    hil_plan_free(&c.trial);
    hil_plan_free(&c.best);
    hil_plan_free(&c.single);
    hil_rehearsal_cache_free(&c.cache);
    return status;
}
