/* planner_offload.c - plans in which activations cross the bus instead of being computed again. */
#include "plan/candidate.h"

#include <math.h>

#define PARKED_STEPS 3
#define LOWERED_MOST 4 /* times that less is kept on the device, where all states stay there */

/* What is known about activations offloaded to the host. */
typedef struct offloaded {
    hil_candidate at;
    const hil_plan *winner;
    size_t work;
    double bytes, bus, saved; /* per pair: host bytes, seconds on the bus, seconds not recomputed */
    bool thin;                /* without what saves little time per byte: [Note: lean] in tape.h */
    bool tight;               /* the device lacks room for copies in flight */
    hil_choice_step how;      /* of the window */
} offloaded;

/* `pairs` of the winner keep on the host what backward needs, and do not compute it again. *ok: it
   works, and the bus has time for it. */
static hil_status try_offloaded(hil_choice *c, offloaded *known, int64_t pairs, bool *ok)
{
    const hil_plan *winner = known->winner;
    hil_plan *p = &c->trial;
    size_t window;
    *ok = false;
    hil_choice_begin(c, known->at);
    hil_plan_offload(p, pairs, known->thin);
    c->at = known->at;
    p->work = known->work;
    p->offloaded = winner->offloaded + (size_t)(known->bytes * (double)pairs);
    p->step_seconds = 0;
    known->tight = !hil_choice_window(c, known->how, &window);
    if (known->tight) return HIL_OK;
    hil_choice_set_window(c, window);
    p->spilled = hil_plan_leaving_sums(&c->trial, c->outline);
    HIL_TRY(hil_choice_try_places(c, known->how, ok));
    known->tight = !*ok && (known->how == HIL_STEP_RESIDENT ||
                            (p->step_seconds > 0 && p->window + p->work > hil_choice_room(c)));
    if (!(p->step_seconds > 0)) return HIL_OK;
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
    HIL_TRY(hil_choice_learn(c, single, &works)); /* with nothing kept */
    int64_t pairs = hil_plan_offloadable(&c->trial);
    if (!pairs) return HIL_OK;
    for (int i = 0; i < 2; ++i) {
        hil_choice_begin(c, single);
        hil_plan_offload(&c->trial, pairs, i == 1);
        HIL_TRY(hil_choice_rehearse_tensors(c, HIL_DEVICE, false, &kind[i]));
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
    hil_choice_begin(c, known->at);
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
    /* several ranks gather weights into the window, wherever they are */
    bool resident = hil_choice_alone(c) && hil_choice_states_on_device(c, winner);
    int lowered = 0;
    known.winner = winner;
    known.how = resident ? HIL_STEP_RESIDENT : HIL_STEP_FAIR;
    known.work = winner->work + winner->work / 8;
    if (known.bytes * (double)pairs > (double)c->planner->budget.host)
        pairs = guess_offloaded(c, &known, most);
    for (int i = 0; i < PARKED_STEPS + (resident ? lowered : 0) && pairs > low; ++i) {
        bool ok;
        HIL_TRY(try_offloaded(c, &known, pairs, &ok));
        if (known.tight && i == lowered && lowered < (resident ? LOWERED_MOST : 1)) {
            known.at.level -= resident ? (known.at.level + 7) / 8 : (known.at.level + 1) / 2;
            known.work = winner->work; /* with less on the device */
            hil_choice_begin(c, known.at);
            most = hil_plan_offloadable(&c->trial);
            ++lowered;
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

/* Of micro-batches one at a time the host holds the activations of one only: more of them may be
   offloaded than where all pass together. */
hil_status hil_choice_offload(hil_choice *c)
{
    const hil_planner *planner = c->planner;
    offloaded known = {.at = c->best_at};
    bool together = known.at.group > 1;
    hil_plan winner;
    if (planner->recompute || !c->outline->training || !planner->budget.host) return HIL_OK;
    c->device_share = 0; /* that would cross the bus as well */
    HIL_TRY(choose_tapes(c, &known));
    HIL_TRY(hil_plan_create(&winner, c->outline));
    hil_plan_copy(&winner, &c->best);
    bool resident = hil_choice_states_on_device(c, &winner);
    hil_status status = refine_offloaded(c, &winner, known);
    if (status == HIL_OK && c->resident_found && !resident) {
        hil_plan_copy(&winner, &c->resident);
        known.at = c->resident_at;
        status = refine_offloaded(c, &winner, known);
    }
    if (status == HIL_OK && together && c->single_found && planner->discrete) {
        hil_plan_copy(&winner, &c->single);
        known.at = c->single_at;
        status = refine_offloaded(c, &winner, known);
    }
    hil_plan_free(&winner);
    return status;
}
