/* placement.c - fills tiers with states, one unit at a time. */
#include "plan/placement.h"

#include "autograd/engine.h"
#include "io/align.h"

#include <string.h>

#define CHUNK_MOST ((int64_t)1 << 20)
#define CHUNK_DISCRETE ((int64_t)1 << 23) /* larger, because copies over the bus are */
#define CHUNK_FEW ((int64_t)1 << 16)      /* below this, reduce slots before chunks */
#define CHUNK_LEAST ((int64_t)4096)
#define SLOTS_MOST 4
#define SLOTS_LEAST 2
#define PAGES_MOST 4 /* in the ring */
#define PAGES_LEAST 2
#define STAGING_SHARE 4 /* staging gets 1 / STAGING_SHARE of the host budget */
#define ROUNDS 8
#define DEVICE_UPDATE_LEAST                                                                        \
    ((int64_t)1 << 16) /* elements; smaller units are not worth the transfer */
#define UNPLACED HIL_TIERS

/* See [Note: representative layers] in outline.h. */
static uint64_t times_of(const hil_outline_unit *unit)
{
    return (uint64_t)hil_outline_times(unit->count);
}

/* Bytes of a state in memory; each use has its own block for its gradient. */
static uint64_t reserved(const hil_outline_unit *unit, int state)
{
    uint64_t count = state == HIL_GRADIENT ? (uint64_t)unit->uses : 1;
    return times_of(unit) * count * hil_align_up(unit->bytes[state]);
}

/* The same for a unit that is kept on the device as a whole: [Note: kept sums] in plan.h. */
static uint64_t reserved_whole(const hil_plan *plan, const hil_outline_unit *unit, int state)
{
    return plan->keeps_sums && state == HIL_GRADIENT ? 0 : reserved(unit, state);
}

/* Elements of a rank's slice. */
static int64_t slice_of(const hil_outline *o, const hil_outline_unit *unit)
{
    return unit->elements / hil_outline_ranks(o);
}

/* A chunk of a state, and of all uses of a gradient. */
static uint64_t chunk_bytes(const hil_outline *o, size_t u, int state, int64_t chunk)
{
    const hil_outline_unit *unit = &o->unit[u];
    int64_t slice = slice_of(o, unit), count = chunk < slice ? chunk : slice;
    if (slice == 0) return 0;
    double each = (double)unit->bytes[state] / (double)slice;
    uint64_t uses = state == HIL_GRADIENT ? (uint64_t)unit->uses : 1;
    return uses * hil_align_up((uint64_t)(each * (double)count + 0.999));
}

/* On disk every chunk is a page. */
static uint64_t on_disk(const hil_outline *o, size_t u, int state, int64_t chunk)
{
    int64_t chunks = (slice_of(o, &o->unit[u]) + chunk - 1) / chunk;
    return times_of(&o->unit[u]) * (uint64_t)chunks * chunk_bytes(o, u, state, chunk);
}

static bool all_on_device(const hil_outline_unit *unit, const hil_unit_place *place)
{
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        if (unit->bytes[s] && place->tier[s] != HIL_DEVICE) return false;
    return true;
}

/* A chunk of all states of any unit. */
static uint64_t whole_chunk(const hil_outline *o, int64_t chunk)
{
    uint64_t most = 0;
    for (size_t u = 0; u < o->units && o->training; ++u) {
        uint64_t sum = 0;
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            if (o->unit[u].bytes[s]) sum += chunk_bytes(o, u, s, chunk);
        if (sum > most) most = sum;
    }
    return most;
}

/* Bytes of one slot of the sweep: the states of a unit that the CPU cannot access in place. The
   gradient of a unit that is resident on a device stays there. */
static uint64_t slot_bytes(const hil_plan *plan, const hil_outline *o, int64_t chunk)
{
    uint64_t most = plan->grows && plan->discrete ? whole_chunk(o, chunk) : 0;
    for (size_t u = 0; u < o->units && (o->training || plan->discrete); ++u) {
        const hil_outline_unit *unit = &o->unit[u];
        int states = all_on_device(unit, &plan->unit[u]) ? HIL_GRADIENT : HIL_UNIT_STATES;
        uint64_t sum = 0;
        for (int s = 0; s < states; ++s)
            if (unit->bytes[s] && (plan->unit[u].tier[s] == HIL_DISK ||
                                   (plan->discrete && plan->unit[u].tier[s] == HIL_DEVICE)))
                sum += chunk_bytes(o, u, s, chunk);
        if (sum > most) most = sum;
    }
    return most;
}

/* Buffers in which states are converted to fp32 for a checkpoint. */
static uint64_t saving_bytes(const hil_plan *plan)
{
    return plan->saves ? hil_align_up((uint64_t)plan->chunk * sizeof(float)) : 0;
}

/* Host buffers for the exchange between ranks whose devices are not connected. */
static uint64_t crossing_bytes(const hil_plan *plan, const hil_outline *o)
{
    int ranks = hil_outline_ranks(o);
    if (!plan->discrete || plan->connected || ranks == 1) return 0;
    uint64_t bytes = hil_exchange_gather_bytes(plan->chunk, ranks);
    return bytes + (o->training ? hil_exchange_all_to_all_bytes(plan->chunk, ranks) : 0);
}

static uint64_t staging_bytes(const hil_plan *plan, const hil_outline *o)
{
    return (uint64_t)plan->slots * slot_bytes(plan, o, plan->chunk) + saving_bytes(plan) +
           crossing_bytes(plan, o) + hil_align_up(plan->ring);
}

/* Device memory for anything but states. */
static uint64_t device_bytes(const hil_plan *plan, const hil_outline *o)
{
    return hil_align_up(plan->window) + hil_align_up(plan->work) +
           (plan->discrete ? hil_align_up(o->lanes) : 0) +
           (uint64_t)plan->device_slots * whole_chunk(o, plan->chunk);
}

static bool uses_disk(const hil_plan *plan, const hil_outline *o)
{
    for (size_t u = 0; u < o->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            if (o->unit[u].bytes[s] && plan->unit[u].tier[s] == HIL_DISK) return true;
    for (size_t i = 0; i < plan->segments; ++i)
        if (plan->segment[i].tier == HIL_DISK || plan->segment[i].tapes == HIL_DISK) return true;
    return plan->spill == HIL_DISK;
}

/* Pages of weights and gradients: at most four bytes an element. */
static size_t ring_of(int64_t chunk, int pages)
{
    return (size_t)pages * (size_t)hil_align_up((uint64_t)chunk * sizeof(float));
}

size_t hil_plan_ring(const hil_plan *plan, const hil_outline *o)
{
    return uses_disk(plan, o) ? ring_of(plan->chunk, PAGES_LEAST) : 0;
}

static uint64_t sum_bytes(const hil_outline_unit *unit)
{
    return hil_align_up((uint64_t)unit->elements * sizeof(float));
}

/* [Note: exchange] Reducing a sum over ranks takes, besides the sum, about a chunk to send, a chunk
   received, and a chunk of the result. */
static uint64_t exchange_bytes(const hil_outline *o, int64_t chunk)
{
    if (hil_outline_ranks(o) == 1 || !o->training) return 0;
    return hil_exchange_all_to_all_bytes(chunk, hil_outline_ranks(o)) +
           hil_align_up((uint64_t)chunk * sizeof(float));
}

/* The largest chunk for which the window has room besides a sum. */
static int64_t exchange_chunk(const hil_plan *plan, const hil_outline *o)
{
    uint64_t most = 0;
    int64_t chunk = CHUNK_MOST;
    if (!exchange_bytes(o, chunk)) return chunk;
    for (size_t u = 0; u < o->units; ++u)
        if (o->unit[u].uses && sum_bytes(&o->unit[u]) > most) most = sum_bytes(&o->unit[u]);
    while (chunk > CHUNK_LEAST && most + exchange_bytes(o, chunk) > plan->window) chunk /= 2;
    return chunk;
}

/* The largest useful chunk: a whole slice, up to `limit`. */
static int64_t chunk_most(const hil_outline *o, int64_t limit)
{
    int64_t most = CHUNK_LEAST;
    for (size_t u = 0; u < o->units; ++u)
        if (slice_of(o, &o->unit[u]) > most) most = slice_of(o, &o->unit[u]);
    most = (most + CHUNK_LEAST - 1) / CHUNK_LEAST * CHUNK_LEAST;
    return most < limit ? most : limit;
}

uint64_t hil_plan_besides(const hil_plan *plan, const hil_outline *o)
{
    if (!plan->discrete) return 0;
    return hil_align_up(o->lanes) +
           (uint64_t)plan->device_slots * whole_chunk(o, chunk_most(o, CHUNK_DISCRETE));
}

static void size_staging(hil_plan *plan, const hil_outline *o, uint64_t share)
{
    bool large = plan->discrete && hil_outline_ranks(o) == 1;
    plan->chunk = chunk_most(o, large ? CHUNK_DISCRETE : exchange_chunk(plan, o));
    plan->slots = SLOTS_MOST;
    bool disk = uses_disk(plan, o);
    for (;;) {
        int pages = plan->chunk > CHUNK_FEW ? PAGES_MOST : PAGES_LEAST;
        plan->ring = disk ? ring_of(plan->chunk, pages) : 0;
        if (staging_bytes(plan, o) <= share) return;
        if (plan->chunk <= CHUNK_FEW && plan->slots > SLOTS_LEAST) {
            --plan->slots;
        } else if (plan->chunk > CHUNK_LEAST) {
            plan->chunk = (plan->chunk / 2 + CHUNK_LEAST - 1) / CHUNK_LEAST * CHUNK_LEAST;
        } else {
            return;
        }
    }
}

static void put(hil_plan *plan, const hil_outline *o, size_t u, int state, int tier, uint64_t *room)
{
    unsigned char *at = &plan->unit[u].tier[state];
    uint64_t bytes = reserved(&o->unit[u], state);
    if (*at != UNPLACED || bytes > *room) return;
    *at = (unsigned char)tier;
    *room -= bytes;
}

/* Places all states of a unit or none: a device with its own memory updates only units that are
   entirely resident, and then no state of them moves. */
static void fill_whole(hil_plan *plan, const hil_outline *o, uint64_t room)
{
    for (size_t u = 0; u < o->units; ++u) {
        uint64_t bytes = 0;
        for (int s = 0; s < HIL_UNIT_STATES; ++s) bytes += reserved_whole(plan, &o->unit[u], s);
        if (bytes > room) continue;
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            if (plan->unit[u].tier[s] == UNPLACED) plan->unit[u].tier[s] = HIL_DEVICE;
        room -= bytes;
    }
}

/* Weights, gradients, then the optimizer's states of one unit after the other. */
static void fill(hil_plan *plan, const hil_outline *o, int tier, uint64_t room)
{
    for (size_t u = 0; u < o->units; ++u) put(plan, o, u, HIL_WEIGHT, tier, &room);
    for (size_t u = 0; u < o->units; ++u) put(plan, o, u, HIL_GRADIENT, tier, &room);
    for (size_t u = 0; u < o->units; ++u)
        for (int s = HIL_REST; s <= HIL_STATE2; ++s) put(plan, o, u, s, tier, &room);
}

static uint64_t left(uint64_t budget, uint64_t used)
{
    return budget > used ? budget - used : 0;
}

/* Places on disk what no other tier has taken. */
static uint64_t fill_disk(hil_plan *plan, const hil_outline *o)
{
    uint64_t bytes = 0;
    for (size_t u = 0; u < o->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) {
            if (plan->unit[u].tier[s] != UNPLACED) continue;
            plan->unit[u].tier[s] = HIL_DISK;
            bytes += reserved(&o->unit[u], s);
        }
    return bytes;
}

static bool all_on_host(const hil_outline_unit *unit, const hil_unit_place *place)
{
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        if (unit->bytes[s] && place->tier[s] != HIL_HOST) return false;
    return true;
}

void hil_plan_device_updates(hil_plan *plan, const hil_outline *o)
{
    double seen = 0, given = 0;
    for (size_t u = 0; u < o->units; ++u) {
        const hil_outline_unit *unit = &o->unit[u];
        double elements = (double)unit->elements;
        plan->unit[u].device_updates = false;
        if (!plan->discrete || !plan->device_slots || !unit->uses ||
            unit->elements < DEVICE_UPDATE_LEAST || !all_on_host(unit, &plan->unit[u]))
            continue;
        seen += elements;
        if (given + elements / 2 > plan->device_share * seen) continue;
        plan->unit[u].device_updates = true;
        given += elements;
    }
}

double hil_plan_device_share(const hil_outline *o, const hil_speeds *s)
{
    double elements = 0, states = 0, weights = 0;
    for (size_t u = 0; u < o->units; ++u) {
        const hil_outline_unit *unit = &o->unit[u];
        if (!unit->uses) continue;
        elements += (double)unit->elements * (double)times_of(unit);
        weights += (double)hil_outline_bytes(unit, HIL_WEIGHT);
        for (int i = 0; i < HIL_UNIT_STATES; ++i) states += (double)hil_outline_bytes(unit, i);
    }
    if (o->ranks > 1 || !(s->update_device > 0) || !(states > 0)) return 0;
    double meanwhile =
        s->to_device / s->update * elements; /* bytes copied while the CPU updates all */
    double part = (meanwhile - weights) / (meanwhile + states);
    return part > 0 ? part : 0;
}

static void clear(hil_plan *plan, const hil_outline *o)
{
    for (size_t u = 0; u < o->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            plan->unit[u].tier[s] =
                hil_outline_bytes(&o->unit[u], s) ? UNPLACED : (unsigned char)HIL_DEVICE;
}

/* Bytes of a state on its tier. */
static uint64_t taken(const hil_plan *plan, const hil_outline *o, size_t u, int state)
{
    const hil_outline_unit *unit = &o->unit[u];
    if (!hil_outline_bytes(unit, state)) return 0;
    if (plan->unit[u].tier[state] == HIL_DISK) return on_disk(o, u, state, plan->chunk);
    bool whole = plan->discrete && all_on_device(unit, &plan->unit[u]);
    return whole ? reserved_whole(plan, unit, state) : reserved(unit, state);
}

void hil_plan_occupied(const hil_plan *plan, const hil_outline *o, hil_occupied *out)
{
    *out = (hil_occupied){0};
    for (size_t u = 0; u < o->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            out->bytes[hil_outline_kind(&o->unit[u])][s][plan->unit[u].tier[s]] +=
                taken(plan, o, u, s);
}

void hil_plan_represented(const hil_plan *plan, const hil_outline *o, uint64_t more[HIL_TIERS])
{
    memset(more, 0, HIL_TIERS * sizeof *more);
    for (size_t u = 0; u < o->units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s) {
            uint64_t times = times_of(&o->unit[u]);
            more[plan->unit[u].tier[s]] += taken(plan, o, u, s) / times * (times - 1);
        }
}

void hil_plan_needs(const hil_plan *plan, const hil_outline *o, uint64_t need[HIL_TIERS])
{
    hil_occupied states;
    hil_plan_occupied(plan, o, &states);
    need[HIL_DEVICE] = device_bytes(plan, o);
    need[HIL_HOST] =
        staging_bytes(plan, o) + hil_align_up(plan->offloaded) + hil_align_up(plan->spilled);
    need[HIL_DISK] = 0;
    for (int k = 0; k < HIL_UNIT_KINDS; ++k)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            for (int t = 0; t < HIL_TIERS; ++t) need[t] += states.bytes[k][s][t];
}

bool hil_plan_may_give_by_tile(const hil_plan *plan, const hil_outline *o)
{
    return o->training && o->micros == 1 && !plan->by_segment;
}

bool hil_plan_may_keep_sums(const hil_plan *plan, const hil_outline *o)
{
    /* What becomes of a matrix that is updated as a whole takes the place of its gradient. */
    return plan->discrete && o->training && hil_outline_ranks(o) == 1 && !o->matrix;
}

/* Whether the window has no room for the weights, as far as they are not on the device, and sums of
   some segment. */
static bool is_small(const hil_plan *plan, const hil_outline *o)
{
    uint64_t window[HIL_WINDOWS];
    bool resident = hil_outline_ranks(o) == 1;
    for (size_t u = 0; u < o->units && resident; ++u)
        resident = !o->unit[u].bytes[HIL_WEIGHT] || plan->unit[u].tier[HIL_WEIGHT] == HIL_DEVICE;
    hil_plan_windows(o, resident, window);
    return plan->window < window[HIL_WINDOW_SEGMENT];
}

void hil_plan_place(hil_plan *plan, const hil_outline *o, const hil_budget *budget,
                    uint64_t *missing)
{
    plan->chunk = chunk_most(o, plan->discrete ? CHUNK_DISCRETE : CHUNK_MOST);
    uint64_t device = left(budget->device, device_bytes(plan, o));
    uint64_t offloaded = hil_align_up(plan->offloaded) + hil_align_up(plan->spilled);
    uint64_t staging = 0, need[HIL_TIERS], rest = 0;
    /* Staging buffers take room, which decides how much is staged: iterate from no staging. */
    for (int i = 0; i < ROUNDS; ++i) {
        clear(plan, o);
        if (plan->discrete)
            fill_whole(plan, o, device);
        else
            fill(plan, o, HIL_DEVICE, device);
        fill(plan, o, HIL_HOST, left(budget->host, offloaded + staging));
        rest = fill_disk(plan, o);
        size_staging(plan, o, left(budget->host, offloaded) / STAGING_SHARE);
        uint64_t now = staging_bytes(plan, o);
        if (now <= staging) break;
        staging = now;
    }
    hil_plan_device_updates(plan, o);
    plan->by_tile = hil_plan_may_give_by_tile(plan, o) && is_small(plan, o);
    hil_plan_needs(plan, o, need);
    *missing = left(need[HIL_HOST], budget->host);
    if (budget->disk == 0)
        *missing += rest;
    else
        *missing += left(need[HIL_DISK], budget->disk);
}

uint64_t hil_plan_sums(const hil_outline *o)
{
    uint64_t bytes = 0;
    for (size_t u = 0; u < o->units && o->training; ++u)
        bytes += times_of(&o->unit[u]) * (uint64_t)o->unit[u].uses * sum_bytes(&o->unit[u]);
    return bytes;
}

/* Bytes of a unit in the window: its weight, and the sum of one use. */
typedef struct visit {
    uint64_t weight, sum;
} visit;

static visit visit_of(const hil_outline *o, const hil_outline_unit *unit, bool resident)
{
    uint64_t weight = (uint64_t)unit->bytes[HIL_WEIGHT] * (uint64_t)hil_outline_ranks(o);
    bool summed = o->training && unit->uses;
    return (visit){resident ? 0 : hil_align_up(weight), summed ? sum_bytes(unit) : 0};
}

static visit segment_visit(const hil_outline *o, const hil_outline_segment *segment, bool resident)
{
    visit sum = {0};
    for (size_t i = 0; i < segment->units; ++i) {
        visit one = visit_of(o, &o->unit[segment->unit[i]], resident);
        sum.weight += one.weight;
        sum.sum += one.sum;
    }
    return sum;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void hil_plan_windows(const hil_outline *o, bool resident, uint64_t window[HIL_WINDOWS])
{
    uint64_t least = o->matrix, vectors = 0, both = 0, weights = 0, sums = 0, all = 0;
    uint64_t exchange = exchange_bytes(o, CHUNK_LEAST);
    for (size_t u = 0; u < o->units; ++u) {
        const hil_outline_unit *unit = &o->unit[u];
        visit v = visit_of(o, unit, resident);
        all += times_of(unit) * v.weight;
        least = larger(least, larger(v.weight, v.sum + exchange));
        /* Biases and norms are in use together with a matrix. */
        if (unit->elements <= CHUNK_LEAST) vectors = larger(vectors, v.weight + v.sum);
    }
    for (size_t i = 0; i < o->segments; ++i) {
        visit v = segment_visit(o, &o->segment[i], resident);
        both = larger(both, v.weight + v.sum);
        weights = larger(weights, v.weight);
        sums = larger(sums, v.sum);
    }
    window[HIL_WINDOW_LEAST] = least + vectors;
    window[HIL_WINDOW_SEGMENT] = larger(both, least + vectors);
    window[HIL_WINDOW_AHEAD] = window[HIL_WINDOW_SEGMENT] + weights;
    window[HIL_WINDOW_WHOLE] = larger(all + sums + exchange_bytes(o, chunk_most(o, CHUNK_MOST)),
                                      window[HIL_WINDOW_SEGMENT]);
}

/* Bytes of sums of the segment that has most. */
static uint64_t segment_sums(const hil_outline *o)
{
    uint64_t most = 0;
    for (size_t i = 0; i < o->segments; ++i)
        most = larger(most, segment_visit(o, &o->segment[i], false).sum);
    return most;
}

/* Whether the window is renewed within a step. */
static bool is_renewed(const hil_plan *p, const hil_outline *o)
{
    int64_t period = hil_engine_period(o->segments);
    return (period + p->group - 1) / p->group * p->group < o->micros;
}

bool hil_plan_spills_all(const hil_plan *p, const hil_outline *o)
{
    return is_renewed(p, o) && p->window < hil_plan_sums(o);
}

size_t hil_plan_leaving_sums(const hil_plan *p, const hil_outline *o)
{
    uint64_t windows[HIL_WINDOWS], some = segment_sums(o), all = hil_plan_sums(o);
    hil_plan_windows(o, false, windows);
    bool small = p->group > 1 && !p->discrete && p->window < windows[HIL_WINDOW_SEGMENT];
    bool most = p->window < all + windows[HIL_WINDOW_WHOLE] && all < p->host_budget / 32;
    if (hil_plan_spills_all(p, o) || (most && is_renewed(p, o))) return (size_t)all;
    return small && some < p->host_budget / 4 ? (size_t)some : 0;
}

/* pairs * level / HIL_LEVEL_LEAN, with the level clamped to 0 .. HIL_LEVEL_LEAN. */
static int64_t share(int64_t pairs, int level)
{
    int64_t most = HIL_LEVEL_LEAN, part = level < 0 ? 0 : level < most ? level : most;
    return pairs / most * part + pairs % most * part / most;
}

/* Takes up to `most` from *rest. */
static int64_t take(int64_t *rest, int64_t most)
{
    int64_t some = *rest < most ? *rest : most;
    *rest -= some;
    return some;
}

void hil_plan_keep(hil_plan *plan, int level)
{
    int64_t pairs = plan->group * (int64_t)plan->segments;
    int64_t all = share(pairs, level - HIL_LEVEL_LEAN), some = share(pairs, level);
    for (size_t i = plan->segments; i-- > 0;) {
        hil_segment_place *place = &plan->segment[i];
        place->keep = take(&all, plan->group);
        place->lean = take(&some, plan->group) - place->keep;
    }
}

/* Not the last segment, whose forward runs inside its backward. */
static bool can_offload(const hil_plan *plan, size_t i)
{
    const hil_segment_place *place = &plan->segment[i];
    return i + 1 < plan->segments && !place->keep && !place->lean;
}

int64_t hil_plan_offloadable(const hil_plan *plan)
{
    int64_t pairs = 0;
    for (size_t i = 0; i < plan->segments; ++i)
        if (can_offload(plan, i)) pairs += plan->group;
    return pairs;
}

int64_t hil_plan_recomputed(const hil_plan *plan)
{
    int64_t pairs = 0;
    for (size_t i = 0; i < plan->segments; ++i)
        pairs += plan->group - plan->segment[i].keep - plan->segment[i].lean;
    return pairs;
}

void hil_plan_offload(hil_plan *plan, int64_t pairs, bool thin)
{
    int64_t segments = hil_plan_offloadable(plan) / plan->group, at = 0;
    for (size_t i = 0; i < plan->segments; ++i) {
        hil_segment_place *place = &plan->segment[i];
        if (!can_offload(plan, i)) continue;
        place->lean = (at + 1) * pairs / segments - at * pairs / segments;
        place->tapes = place->lean ? HIL_HOST : HIL_DEVICE;
        place->thin = thin && place->lean;
        ++at;
    }
}
