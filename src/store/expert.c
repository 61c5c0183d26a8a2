/* expert.c - fetches only the experts that have tokens; see [Note: idle experts] in pass.h. */
#include "store/expert.h"
#include "store/window.h"

hil_status hil_store_declare_expert(hil_store *store, hil_param *param, const hil_expert *expert)
{
    for (int64_t t = 0; t < hil_param_tiles(param); ++t) {
        hil_unit *unit = hil_unit_of(store, param, t);
        const hil_expert *old = &unit->expert;
        bool other = old->segment != expert->segment || old->routing != expert->routing ||
                     old->number != expert->number;
        unit->routed_twice |= old->routing && other;
        unit->expert = *expert;
    }
    return hil_store_declare_use(store, param, expert->segment);
}

/* A gather needs all ranks, and the choices of a GPU are known on the GPU alone. */
bool hil_expert_may_idle(const hil_store *store, const hil_unit *unit)
{
    return unit->expert.routing && !unit->routed_twice && hil_store_alone(store) &&
           !store->discrete;
}

/* Whether its weight is not fetched while it is idle. A visit that pins all weights needs them all.
 */
static bool may_skip(const hil_store *store, const hil_unit *unit)
{
    return hil_expert_may_idle(store, unit) && !store->plan->by_segment;
}

/* Whether forward visits fetch it only after the router: some experts are idle for certain. */
static bool waits_for_router(const hil_store *store, const hil_unit *unit)
{
    return store->tokens * unit->expert.chosen < unit->expert.experts;
}

static bool is_in_visit(const hil_order *order, int64_t place)
{
    return order->mark >= order->known.marks || place < order->known.mark[order->mark];
}

bool hil_expert_expected(const hil_store *store, const hil_unit *unit, int64_t place)
{
    hil_order *order = store->pass;
    if (!may_skip(store, unit)) return true;
    bool known = unit->demand != HIL_DEMAND_UNKNOWN;
    if (!(order->known.use[place] & HIL_ORDER_BACK))
        known = is_in_visit(order, place) && unit->routed == store->visits;
    else if (hil_order_forward(order, hil_entity(store, unit, HIL_OF_WEIGHT), place))
        known = false;
    if (known) return unit->demand == HIL_DEMAND_ROWS;
    return !waits_for_router(store, unit);
}

bool hil_expert_wanted(const hil_store *store, const hil_unit *unit)
{
    return unit->demand != HIL_DEMAND_NONE || !may_skip(store, unit);
}

void hil_experts_begin(hil_store *store)
{
    for (size_t u = 0; u < store->units; ++u) {
        store->unit[u].demand = HIL_DEMAND_UNKNOWN;
        store->unit[u].spent = false;
    }
}

void hil_experts_enter(hil_store *store, const hil_segment_visit *visit)
{
    const size_t *declared;
    size_t count = hil_store_declared(store, visit->segment, &declared);
    ++store->visits;
    for (size_t k = 0; k < count; ++k) {
        hil_unit *unit = &store->unit[declared[k]];
        if (visit->direction == HIL_FORWARD && unit->spent) unit->demand = HIL_DEMAND_UNKNOWN;
        unit->spent = visit->direction == HIL_BACKWARD;
    }
}

hil_status hil_store_route(hil_store *store, int routing, const int32_t *begin)
{
    const size_t *declared;
    hil_order *order = store->pass;
    if (!order || store->visit.direction == HIL_BACKWARD) return HIL_OK;
    size_t count = hil_store_declared(store, store->visit.segment, &declared);
    for (size_t k = 0; k < count; ++k) {
        hil_unit *unit = &store->unit[declared[k]];
        const hil_expert *e = &unit->expert;
        if (e->routing != routing || !may_skip(store, unit)) continue;
        unit->routed = store->visits;
        if (begin && begin[e->number] == begin[e->number + 1]) {
            if (unit->demand == HIL_DEMAND_UNKNOWN) unit->demand = HIL_DEMAND_NONE;
            continue;
        }
        unit->demand = HIL_DEMAND_ROWS;
        int64_t next = hil_order_next(order, hil_entity(store, unit, HIL_OF_WEIGHT));
        if (unit->hollow && next < order->ahead) order->ahead = next;
    }
    return hil_window_prefetch(store);
}

void hil_store_need(hil_store *store, hil_param *param, int64_t tile)
{
    hil_unit *unit = hil_unit_of(store, param, tile);
    if (unit->demand == HIL_DEMAND_NONE) unit->demand = HIL_DEMAND_ROWS;
}

uint64_t hil_store_take_skipped(hil_store *store)
{
    int64_t skipped = store->skipped;
    store->skipped = 0;
    return skipped > 0 ? (uint64_t)skipped : 0;
}
