/* The planner on made-up models: no plan exceeds a budget, more memory is never slower, the same
   inputs give the same plan, and the message for what does not fit has the right numbers. */
#include "check.h"
#include "plan/planner.h"

enum { UNITS_MAX = 200, SEGMENTS = 12 };

/* A machine and a model for which everything can be computed by hand. */
typedef struct world {
    hil_outline outline;
    hil_outline_unit unit[UNITS_MAX];
    hil_outline_segment segment[SEGMENTS];
    size_t used[SEGMENTS][UNITS_MAX];
    uint64_t tape, boundary, base; /* bytes of tensors: of a kept segment, between two, at least */
    double forward;                /* seconds of a segment and a micro-batch */
    double link, disk, network;    /* bytes per second */
    int zero;
    int rehearsals, overfull; /* in all; of plans that need more disk than there is */
    uint64_t most_offloaded;  /* bytes of activations on the host, of any plan with a group */
} world;

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static uint64_t at(const world *w, const hil_plan *p, int state, int tier)
{
    uint64_t bytes = 0;
    for (size_t u = 0; u < w->outline.units; ++u)
        if (p->unit[u].tier[state] == tier) bytes += hil_outline_bytes(&w->unit[u], state);
    return bytes;
}

/* Bytes of a weight if it has to be fetched into the window. */
static uint64_t fetched_bytes(const world *w, const hil_plan *p, size_t u)
{
    if (w->outline.ranks > 1) return w->unit[u].bytes[HIL_WEIGHT] * (uint64_t)w->outline.ranks;
    return p->unit[u].tier[HIL_WEIGHT] == HIL_DEVICE ? 0 : w->unit[u].bytes[HIL_WEIGHT];
}

static uint64_t segment_needs(const world *w, const hil_plan *p)
{
    uint64_t most = 0;
    for (int i = 0; i < SEGMENTS; ++i) {
        uint64_t need = 0;
        for (size_t k = 0; k < w->segment[i].units; ++k) {
            size_t u = w->used[i][k];
            need += 4 * (uint64_t)w->unit[u].elements;
            need += fetched_bytes(w, p, u);
        }
        if (need > most) most = need;
    }
    return most;
}

static hil_status check_window(const world *w, const hil_plan *p)
{
    bool fits = !p->by_segment || segment_needs(w, p) <= p->window;
    for (size_t u = 0; u < w->outline.units; ++u)
        fits = fits && fetched_bytes(w, p, u) <= p->window &&
               4 * (uint64_t)w->unit[u].elements <= p->window;
    return fits ? HIL_OK : hil_fail(HIL_ERR_BUDGET, "the window is too small");
}

/* Bytes of all weights, undivided. */
static uint64_t all_weights(const world *w, const hil_plan *p)
{
    uint64_t bytes = 0;
    for (size_t u = 0; u < w->outline.units; ++u) bytes += fetched_bytes(w, p, u);
    return bytes;
}

static uint64_t count_offloaded(const hil_plan *p)
{
    uint64_t pairs = 0;
    for (size_t i = 0; i < p->segments; ++i)
        if (p->segment[i].tapes == HIL_HOST) pairs += (uint64_t)p->segment[i].lean;
    return pairs;
}

static hil_status rehearse(void *context, hil_plan *p)
{
    world *w = context;
    ++w->rehearsals;
    HIL_TRY(check_window(w, p));
    uint64_t micros = (uint64_t)w->outline.micros, group = (uint64_t)p->group, kept = 0, lean = 0;
    uint64_t offloaded = count_offloaded(p),
             crossing = offloaded < 2 ? offloaded : 2; /* copies in flight */
    bool here = p->segment[0].tier == HIL_DEVICE;
    if (group > 1 && offloaded * w->tape * 2 / 3 > w->most_offloaded)
        w->most_offloaded = offloaded * w->tape * 2 / 3;
    for (size_t i = 0; i < p->segments; ++i) {
        kept += (uint64_t)p->segment[i].keep;
        lean += (uint64_t)p->segment[i].lean;
    }
    uint64_t waiting = group * SEGMENTS * w->boundary;
    p->work = w->base + kept * w->tape + (lean - offloaded + crossing) * w->tape * 2 / 3 +
              (here ? waiting : 2 * w->boundary);
    p->offloaded = (p->segment[0].tier == HIL_HOST ? waiting : 0) + offloaded * w->tape * 2 / 3;
    uint64_t need[HIL_TIERS];
    p->spilled = 0;
    hil_plan_needs(p, &w->outline, need);
    bool placed = need[HIL_DISK] > 0; /* otherwise the planner asks for the tensors' memory */
    if (p->segment[0].tier == HIL_DISK) need[HIL_DISK] += waiting;
    for (int t = 0; t < HIL_TIERS; ++t) p->peak[t] = need[t];
    w->overfull += placed && need[HIL_DISK] > p->disk_budget;
    double passes = (double)(micros / group);
    double again = ((double)(group * SEGMENTS - kept - lean) + 0.03 * (double)lean) * passes;
    p->compute_seconds = w->forward * (3 * (double)micros * SEGMENTS + again);
    uint64_t streamed = at(w, p, HIL_WEIGHT, HIL_HOST) + at(w, p, HIL_WEIGHT, HIL_DISK);
    /* A small window does not keep a segment's weights until the next micro-batch. */
    double repeats = p->window < segment_needs(w, p) ? (double)micros : passes;
    double link = 2 * (repeats * (double)streamed + passes * (double)p->offloaded) / w->link,
           disk = 0;
    for (int s = 0; s < HIL_UNIT_STATES; ++s) disk += 2 * (double)at(w, p, s, HIL_DISK);
    disk += 2 * repeats * (double)at(w, p, HIL_WEIGHT, HIL_DISK);
    if (p->segment[0].tier == HIL_DISK) disk += 2 * (double)waiting;
    disk /= w->disk;
    double network = 0, weights = (double)all_weights(w, p);
    if (w->outline.ranks > 1) network = weights * (weights < (double)p->window ? 1 : 2 * repeats);
    network /= w->network;
    p->busy[HIL_LINK_OUT] = passes * (double)p->offloaded / w->link;
    p->step_seconds = fmax(p->compute_seconds, fmax(network, fmax(link, disk)));
    p->step_seconds += 0.05 * (link + disk + network);
    return HIL_OK;
}

static void add_use(world *w, int segment)
{
    w->used[segment][w->segment[segment].units++] = w->outline.units - 1;
}

static void add_unit(world *w, int64_t elements, bool vector, int segment)
{
    hil_outline_unit *unit = &w->unit[w->outline.units++];
    uint64_t n = (uint64_t)elements, size = vector ? 4 : 2;
    int uses = segment < 0 ? 2 : 1; /* a table that the first and the last share */
    *unit = (hil_outline_unit){.elements = elements, .uses = uses};
    add_use(w, segment < 0 ? 0 : segment);
    if (uses > 1) add_use(w, SEGMENTS - 1);
    snprintf(unit->name, sizeof unit->name, "unit %zu", w->outline.units);
    unit->bytes[HIL_WEIGHT] = n * size;
    unit->bytes[HIL_GRADIENT] = n * size;
    unit->bytes[HIL_REST] = vector ? 0 : n * 2;
    unit->bytes[HIL_STATE1] = unit->bytes[HIL_STATE2] = n * 4;
}

/* `even`: all matrices are equal. */
static void build(world *w, int64_t scale, bool even)
{
    *w = (world){.forward = 1e-3, .link = 5e9, .disk = 1e9, .network = 1e9};
    for (int i = 0; i < SEGMENTS; ++i)
        w->segment[i] = (hil_outline_segment){"block", w->used[i], 0, 1};
    w->outline = (hil_outline){.unit = w->unit,
                               .segment = w->segment,
                               .segments = SEGMENTS,
                               .micros = 4,
                               .training = true};
    if (!even) add_unit(w, 50000 * scale, false, -1);
    for (int i = 0; i < SEGMENTS; ++i) {
        for (int64_t k = 1; k <= 4; ++k) add_unit(w, (even ? 4 : k) * 1024 * scale, false, i);
        if (!even) add_unit(w, 256, true, i);
    }
    w->tape = (uint64_t)scale * 4000;
    w->boundary = (uint64_t)scale * 256;
    w->base = (uint64_t)scale * 2000;
}

static uint64_t all_states(const world *w)
{
    uint64_t bytes = 0;
    for (size_t u = 0; u < w->outline.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) bytes += hil_outline_bytes(&w->unit[u], s);
    return bytes;
}

static hil_status plan_for(world *w, uint64_t device, uint64_t host, uint64_t disk, hil_plan *out)
{
    hil_planner planner = {.outline = &w->outline,
                           .budget = {(size_t)device, (size_t)host, disk},
                           .prefetch = true,
                           .zero = w->zero,
                           .rehearse = rehearse,
                           .context = w};
    w->rehearsals = w->overfull = 0;
    w->most_offloaded = 0;
    return hil_planner_choose(&planner, out);
}

/* Counted here, not by the planner. */
static void check_budgets(const world *w, const hil_plan *p, uint64_t device, uint64_t host,
                          uint64_t disk)
{
    uint64_t sum[HIL_TIERS] = {p->window + p->work, p->ring + p->offloaded + p->spilled, 0};
    for (size_t u = 0; u < w->outline.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) {
            CHECK(p->unit[u].tier[s] < HIL_TIERS);
            for (int i = 0; i < (s == HIL_GRADIENT ? w->unit[u].uses : 1); ++i)
                sum[p->unit[u].tier[s]] += round_up(w->unit[u].bytes[s]);
        }
    CHECK(sum[HIL_DEVICE] <= device);
    CHECK(sum[HIL_HOST] <= host);
    CHECK(sum[HIL_DISK] <= disk);
    CHECK(p->peak[HIL_DEVICE] <= device && p->peak[HIL_HOST] <= host && p->peak[HIL_DISK] <= disk);
    CHECK(p->chunk >= 4096 && p->chunk <= 1 << 20 && p->chunk % 4096 == 0);
    CHECK(p->slots >= 2 && p->slots <= 4);
    int64_t kept = 0, again = 0;
    for (size_t i = 0; i < p->segments; ++i) {
        const hil_segment_place *place = &p->segment[i];
        CHECK(place->keep >= 0 && place->lean >= 0 && place->keep + place->lean <= p->group);
        kept += place->keep;
        again += p->group - place->keep - place->lean;
    }
    CHECK(!kept || !again); /* room for what is cheap would have saved more elsewhere */
}

static void check_all_fits(void)
{
    world w;
    hil_plan p;
    build(&w, 16, false);
    CHECK_OK(plan_for(&w, (uint64_t)1 << 40, 1 << 20, 0, &p));
    for (size_t u = 0; u < w.outline.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) CHECK_INT(p.unit[u].tier[s], HIL_DEVICE);
    CHECK_INT(p.group, 1);
    for (int i = 0; i < SEGMENTS; ++i) CHECK_INT(p.segment[i].keep, 1);
    CHECK(w.rehearsals <= 3); /* the common case starts at once */
    CHECK_INT(p.ring, 0);
    hil_plan_free(&p);
}

/* If the best plan hardly stalls, no other windows are tried. */
static void check_computing(void)
{
    world w;
    hil_plan p;
    build(&w, 16, false);
    w.link = w.disk = 1e15;
    CHECK_OK(plan_for(&w, all_states(&w) / 10, all_states(&w) * 2, 0, &p));
    CHECK(w.rehearsals <= 19);
    CHECK(p.unit[0].tier[HIL_WEIGHT] != HIL_DEVICE); /* there is a window */
    hil_plan_free(&p);
}

/* For every mix of budgets a plan stays within them or is refused; smaller budgets than refused
   ones are refused too. Times never grow with a budget. */
static void check_grid(bool even, double slack)
{
    static const double part[] = {0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 3};
    enum { PARTS = sizeof part / sizeof *part };
    world w;
    hil_plan p;
    double time[PARTS][PARTS][2];
    build(&w, 64, even);
    uint64_t states = all_states(&w);
    int fitted = 0, most = 0;
    for (int d = 0; d < PARTS; ++d)
        for (int h = 0; h < PARTS; ++h)
            for (int k = 0; k < 2; ++k) {
                uint64_t device = (uint64_t)(part[d] * (double)states);
                uint64_t host = (uint64_t)(part[h] * (double)states), disk = k ? 2 * states : 0;
                hil_status status = plan_for(&w, device, host, disk, &p);
                CHECK(status == HIL_OK || status == HIL_ERR_BUDGET);
                time[d][h][k] = status == HIL_OK ? p.step_seconds : INFINITY;
                if (status != HIL_OK) continue;
                if (w.rehearsals > most) most = w.rehearsals;
                ++fitted;
                check_budgets(&w, &p, device, host, disk);
                hil_plan_free(&p);
            }
    CHECK(fitted > PARTS * PARTS);
    CHECK(most < 60);
    for (int d = 0; d < PARTS; ++d)
        for (int h = 0; h < PARTS; ++h)
            for (int k = 0; k < 2; ++k) {
                double now = time[d][h][k];
                if (d) CHECK(now <= slack * time[d - 1][h][k]);
                if (h) CHECK(now <= slack * time[d][h - 1][k]);
                if (k) CHECK(now <= slack * time[d][h][0]);
            }
}

/* On a small device, as many activations are offloaded as the bus can carry and the host has room
   for; none if the bus is too slow. */
static void check_offloaded(void)
{
    world w;
    hil_plan none, some, more;
    build(&w, 64, true);
    uint64_t states = all_states(&w), tight = states / 4;
    w.tape = states / 16;
    w.link = 1e6;
    CHECK_OK(plan_for(&w, tight, 8 * states, 0, &none));
    CHECK_INT(count_offloaded(&none), 0);
    w.link = 50e9;
    CHECK_OK(plan_for(&w, tight, 8 * states, 0, &more));
    CHECK_OK(plan_for(&w, tight, states + 4 * w.tape, 0, &some));
    CHECK(count_offloaded(&more) > count_offloaded(&some));
    CHECK(more.step_seconds < some.step_seconds);
    check_budgets(&w, &more, tight, 8 * states, 0);
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i + 1 < SEGMENTS; ++i) {
        uint64_t pairs = (uint64_t)more.segment[i].lean;
        if (more.segment[i].tapes != HIL_HOST) continue;
        least = pairs < least ? pairs : least;
        most = pairs > most ? pairs : most;
    }
    CHECK(most - least <= 1);
    CHECK_INT(more.segment[SEGMENTS - 1].tapes, HIL_DEVICE); /* its forward is in its backward */
    hil_plan_free(&none);
    hil_plan_free(&some);
    hil_plan_free(&more);
}

/* More activations than the host has room for are not even tried. */
static void check_offloaded_fits(void)
{
    world w;
    hil_plan p;
    build(&w, 64, true);
    uint64_t states = all_states(&w), host = states + states / 8;
    w.tape = states / 4;
    w.link = 50e9;
    CHECK_OK(plan_for(&w, states / 8, host, 0, &p));
    CHECK(p.group > 1 && w.most_offloaded > 0 && w.most_offloaded <= host);
    hil_plan_free(&p);
}

static void check_determinism(void)
{
    world w;
    hil_plan a, b;
    build(&w, 64, false);
    uint64_t states = all_states(&w);
    CHECK_OK(plan_for(&w, states / 3, states / 4, 2 * states, &a));
    CHECK_OK(plan_for(&w, states / 3, states / 4, 2 * states, &b));
    CHECK(memcmp(a.unit, b.unit, a.units * sizeof *a.unit) == 0);
    for (size_t i = 0; i < a.segments; ++i)
        CHECK(memcmp(&a.segment[i], &b.segment[i], sizeof *a.segment) == 0);
    CHECK(a.window == b.window && a.work == b.work && a.ring == b.ring && a.chunk == b.chunk);
    CHECK(a.slots == b.slots && a.group == b.group && a.spill == b.spill);
    CHECK(a.step_seconds == b.step_seconds);
    hil_plan_free(&a);
    hil_plan_free(&b);
}

/* Spilling happens one unit at a time: a little less room moves a little. */
static void check_gradual(void)
{
    world w;
    hil_plan p;
    build(&w, 64, true);
    w.tape = 0; /* activations do not compete */
    uint64_t states = all_states(&w), before = UINT64_MAX;
    uint64_t unit = all_states(&w) / w.outline.units;
    for (uint64_t host = states; host > states / 2; host -= unit) {
        CHECK_OK(plan_for(&w, states / 8, host, 2 * states, &p));
        uint64_t memory = 0;
        for (int s = 0; s < HIL_UNIT_STATES; ++s) memory += at(&w, &p, s, HIL_HOST);
        uint64_t staging = p.ring + (uint64_t)p.slots * (uint64_t)p.chunk * 14;
        if (before != UINT64_MAX) CHECK(memory + 3 * unit + staging > before);
        before = memory;
        /* Weights are the last to go to disk. */
        CHECK_INT(at(&w, &p, HIL_WEIGHT, HIL_DISK), 0);
        hil_plan_free(&p);
    }
}

static void check_refusals(void)
{
    world w;
    hil_plan p;
    build(&w, 64, false);
    uint64_t states = all_states(&w);
    CHECK_FAILS(plan_for(&w, 1 << 16, states, states, &p), HIL_ERR_BUDGET, "of device memory (");
    CHECK(strstr(hil_status_message(), "--tile-size"));
    CHECK_FAILS(plan_for(&w, states / 2, states / 4, 0, &p), HIL_ERR_BUDGET, "--disk PATH");
    CHECK(strstr(hil_status_message(), " are missing"));
    CHECK_FAILS(plan_for(&w, states / 3, states / 8, states / 8, &p), HIL_ERR_BUDGET,
                "of disk: give another --disk");
    /* What the message asks for is enough. */
    CHECK_OK(plan_for(&w, states / 2, states, 0, &p));
    hil_plan_free(&p);
    /* A disk too small for activations beside the states; no plan is rehearsed to find that out. */
    uint64_t device = states / 2, host = states / 16;
    w.outline.micros = 32;
    w.boundary = states / 16;
    CHECK_FAILS(plan_for(&w, device, host, states, &p), HIL_ERR_BUDGET, " of disk are missing: ");
    CHECK(strstr(hil_status_message(), "give a larger --disk"));
    CHECK_INT(w.overfull, 0);
    CHECK_OK(plan_for(&w, device, host, 8 * states, &p));
    CHECK(p.segment[0].tier == HIL_DISK);
    hil_plan_free(&p);
}

/* The smallest machine: staging shrinks with the host's budget. */
static void check_tiny(void)
{
    world w;
    hil_plan p;
    build(&w, 1, false);
    uint64_t states = all_states(&w);
    CHECK(states > 2 << 20);
    CHECK_OK(plan_for(&w, 700 << 10, 1 << 20, 4 * states, &p));
    check_budgets(&w, &p, 700 << 10, 1 << 20, 4 * states);
    CHECK(at(&w, &p, HIL_STATE1, HIL_DISK) > 0);
    hil_plan_free(&p);
    CHECK_OK(plan_for(&w, 700 << 10, 200 << 10, 4 * states, &p));
    CHECK_INT(p.chunk, 4096);
    CHECK_INT(p.slots, 2);
    hil_plan_free(&p);
}

/* An edited plan is held to the budgets as well. */
static void check_edited(void)
{
    world w;
    hil_plan p;
    build(&w, 64, false);
    uint64_t states = all_states(&w);
    hil_planner planner = {.outline = &w.outline,
                           .budget = {(size_t)states / 2, (size_t)states, 0},
                           .rehearse = rehearse,
                           .context = &w};
    CHECK_OK(hil_planner_choose(&planner, &p));
    CHECK_OK(hil_planner_check(&planner, &p));
    p.unit[0].tier[HIL_STATE1] = HIL_DISK;
    CHECK_FAILS(hil_planner_check(&planner, &p), HIL_ERR_BUDGET, "give --disk");
    planner.budget.disk = 4096;
    CHECK_FAILS(hil_planner_check(&planner, &p), HIL_ERR_BUDGET, "of disk, but it may use 4.0 KiB");
    CHECK(p.ring >= 8 * (size_t)p.chunk);
    p.unit[0].tier[HIL_STATE1] = HIL_HOST;
    p.ring = 0;
    p.segment[0].tier = HIL_DISK;
    planner.budget.disk = 1 << 20;
    CHECK_OK(hil_planner_check(&planner, &p));
    CHECK(p.ring >= 8 * (size_t)p.chunk);
    planner.budget.disk = 0;
    CHECK_FAILS(hil_planner_check(&planner, &p), HIL_ERR_BUDGET, "give --disk");
    p.segment[0].tier = HIL_DEVICE;
    p.ring = 0;
    for (size_t u = 0; u < p.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) p.unit[u].tier[s] = HIL_DEVICE;
    CHECK_FAILS(hil_planner_check(&planner, &p), HIL_ERR_BUDGET,
                "of device memory, but it may use");
    hil_plan_free(&p);
}

static void divide(world *w, int ranks)
{
    w->outline.ranks = ranks;
    for (size_t u = 0; u < w->outline.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) w->unit[u].bytes[s] /= (size_t)ranks;
}

static uint64_t all_sums(const world *w)
{
    uint64_t bytes = 0;
    for (size_t u = 0; u < w->outline.units; ++u)
        bytes += 4 * (uint64_t)w->unit[u].elements * (uint64_t)w->unit[u].uses;
    return bytes;
}

typedef struct pupil {
    world *w;
    int64_t chunk; /* the smallest that tensors were rehearsed with */
} pupil;

static hil_status rehearse_pupil(void *context, hil_plan *p)
{
    return rehearse(((pupil *)context)->w, p);
}

static hil_status learn(void *context, hil_plan *p, bool limited)
{
    pupil *seen = context;
    (void)limited;
    if (p->chunk < seen->chunk) seen->chunk = p->chunk;
    return rehearse(seen->w, p);
}

/* What tensors of several ranks need is rehearsed in chunks as large as those of one rank: with
   small ones, values on disk have a thousand times as many pages. */
static void check_learned_chunks(void)
{
    for (int ranks = 1; ranks <= 4; ranks *= 4) {
        world w;
        hil_plan p;
        pupil seen = {.w = &w, .chunk = INT64_MAX};
        build(&w, 4096, false);
        divide(&w, ranks);
        size_t states = (size_t)all_states(&w);
        hil_planner planner = {.outline = &w.outline,
                               .budget = {states, states, 4 * states},
                               .rehearse = rehearse_pupil,
                               .learn = learn,
                               .context = &seen};
        CHECK_OK(hil_planner_choose(&planner, &p));
        CHECK(seen.chunk >= 1 << 16);
        hil_plan_free(&p);
    }
}

/* Several ranks: with enough memory each weight is gathered once a step, with less by segment, with
   the least one by one; always within the budgets. */
static void check_ranks(void)
{
    world w;
    hil_plan p;
    build(&w, 64, false);
    uint64_t alone = all_states(&w);
    divide(&w, 4);
    uint64_t states = all_states(&w), table = 4 * (uint64_t)w.unit[0].elements; /* its sum */
    CHECK_INT(4 * states, alone);
    CHECK_OK(plan_for(&w, (uint64_t)1 << 40, 1 << 20, 0, &p));
    CHECK_INT(p.ranks, 4);
    CHECK_INT(p.zero, 3);
    CHECK(p.by_segment && p.window >= all_weights(&w, &p));
    CHECK(w.rehearsals <= 3);
    hil_plan_free(&p);
    int by_segment = 0, one_by_one = 0, whole = 0;
    for (uint64_t device = states / 8; device < 8 * states; device += states / 8)
        for (uint64_t host = states / 8; host < 2 * states; host *= 3) {
            hil_status status = plan_for(&w, device, host, 2 * states, &p);
            CHECK(status == HIL_OK || status == HIL_ERR_BUDGET);
            if (status != HIL_OK) continue;
            check_budgets(&w, &p, device, host, 2 * states);
            CHECK(!p.by_segment || p.window >= segment_needs(&w, &p));
            if (p.window >= all_weights(&w, &p) + table)
                ++whole;
            else if (p.by_segment)
                ++by_segment;
            else
                ++one_by_one;
            hil_plan_free(&p);
        }
    CHECK(whole > 0 && by_segment > 0 && one_by_one > 0);
}

/* ZeRO stages are lower bounds of the window. If a stage does not fit, the message says so, and its
   advice works. */
static void check_stages(void)
{
    world w;
    hil_plan p;
    build(&w, 64, false);
    divide(&w, 2);
    uint64_t states = all_states(&w), weights = all_weights(&w, &(hil_plan){0});
    uint64_t table = 4 * (uint64_t)w.unit[0].elements, little = weights + table / 2; /* its sum */
    uint64_t host = 2 * states;
    w.zero = 3;
    CHECK_OK(plan_for(&w, little, host, 0, &p));
    CHECK(p.by_segment && p.window < weights + table);
    hil_plan_free(&p);
    w.zero = 2;
    CHECK_FAILS(plan_for(&w, little, host, 0, &p), HIL_ERR_BUDGET, "--zero 2 keeps all weights in");
    CHECK(strstr(hil_status_message(), "take --zero 3, or give more --device-memory"));
    CHECK_OK(plan_for(&w, 8 * weights, host, 0, &p));
    CHECK_INT(p.zero, 2);
    CHECK(p.by_segment && p.window >= weights + table);
    hil_plan_free(&p);
    w.zero = 1;
    CHECK_FAILS(plan_for(&w, weights + all_sums(&w), host, 0, &p), HIL_ERR_BUDGET,
                "--zero 1 keeps all weights and all gradient sums in");
    CHECK_OK(plan_for(&w, 4 * (weights + all_sums(&w)), host, 0, &p));
    CHECK(p.window >= weights + all_sums(&w));
    CHECK_INT(p.group, 1);
    hil_plan_free(&p);
    /* Alone there are no stages. */
    build(&w, 64, false);
    w.zero = 1;
    CHECK_OK(plan_for(&w, weights, 4 * states, 0, &p));
    CHECK(!p.by_segment);
    hil_plan_free(&p);
}

int main(void)
{
    check_all_fits();
    check_computing();
    check_grid(true, 1.02);
    check_grid(false, 1.05);
    check_offloaded_fits();
    check_determinism();
    check_offloaded();
    check_gradual();
    check_refusals();
    check_tiny();
    check_edited();
    check_ranks();
    check_learned_chunks();
    check_stages();
    return 0;
}
