/* segment.c - which weights and sums a segment may use, and pinning all of them during a visit; see
   [Note: visits] in pass.h. */
#include "base/alloc.h"
#include "store/expert.h"
#include "store/segment.h"
#include "store/window.h"

static hil_declared *find(const hil_store *store, int segment)
{
    for (size_t i = 0; i < store->segments; ++i)
        if (store->declared[i].segment == segment) return &store->declared[i];
    return NULL;
}

hil_status hil_segment_declare(hil_store *store, int segment, size_t unit)
{
    hil_declared *d = find(store, segment);
    if (!d) {
        HIL_TRY(HIL_GROW(&store->declared, &store->segments_room, store->segments + 1));
        d = &store->declared[store->segments++];
        *d = (hil_declared){.segment = segment};
    }
    size_t at = d->count;
    while (at > 0 && d->unit[at - 1] > unit) --at;
    if (at > 0 && d->unit[at - 1] == unit) return HIL_OK;
    HIL_TRY(HIL_GROW(&d->unit, &d->room, d->count + 1));
    for (size_t i = d->count++; i > at; --i) d->unit[i] = d->unit[i - 1];
    d->unit[at] = unit;
    return HIL_OK;
}

void hil_segments_free(hil_store *store)
{
    for (size_t i = 0; i < store->segments; ++i) hil_free(store->declared[i].unit);
    hil_free(store->declared);
}

size_t hil_store_declared(const hil_store *store, int segment, const size_t **units)
{
    const hil_declared *d = find(store, segment);
    *units = d ? d->unit : NULL;
    return d ? d->count : 0;
}

typedef hil_status apply_fn(hil_store *store, int32_t entity, bool *held, int *pins);

/* Calls `apply` for everything that a visit pins: weights in registered order, then in backward the
   sums. */
static hil_status for_each(hil_store *store, const hil_segment_visit *visit, apply_fn *apply)
{
    const hil_declared *d = find(store, visit->segment);
    for (size_t k = 0; d && k < d->count; ++k) {
        hil_unit *unit = &store->unit[d->unit[k]];
        HIL_TRY(apply(store, hil_entity(store, unit, HIL_OF_WEIGHT), &unit->held, &unit->pins));
    }
    for (size_t k = 0; d && k < d->count && visit->direction == HIL_BACKWARD; ++k) {
        hil_unit *unit = &store->unit[d->unit[k]];
        for (int i = 0; i < unit->uses; ++i)
            if (unit->use[i].segment == visit->segment)
                HIL_TRY(apply(store, hil_entity(store, unit, i), &unit->use[i].held,
                              &unit->use[i].pins));
    }
    return HIL_OK;
}

static hil_status unpin(hil_store *store, int32_t entity, bool *held, int *pins)
{
    (void)store, (void)entity;
    if (*held) --*pins;
    *held = false;
    return HIL_OK;
}

/* Records the use. Pins the entity if it is in the window, so that making room for the rest does
   not evict it. */
static hil_status pin_present(hil_store *store, int32_t entity, bool *held, int *pins)
{
    HIL_TRY(hil_order_use(store->pass, entity));
    if (!hil_window_has(store, entity)) return HIL_OK;
    *held = true;
    ++*pins;
    return HIL_OK;
}

static hil_status fetch_missing(hil_store *store, int32_t entity, bool *held, int *pins)
{
    if (*held) return HIL_OK;
    HIL_TRY(hil_window_bring(store, entity));
    *held = true;
    ++*pins;
    return HIL_OK;
}

static hil_status pin_all(hil_store *store)
{
    HIL_TRY(for_each(store, &store->visit, pin_present));
    hil_status status = for_each(store, &store->visit, fetch_missing);
    if (status != HIL_ERR_BUDGET) return status;
    /* The window may be fragmented: empty it and try again. */
    HIL_TRY(for_each(store, &store->visit, unpin));
    HIL_TRY(hil_window_clear(store));
    return for_each(store, &store->visit, fetch_missing);
}

/* Whether [Note: same order] applies. */
static bool needs_same_order(const hil_store *store)
{
    return !hil_store_alone(store) && !store->opening.speeds && store->visit.segment != HIL_NOWHERE;
}

/* Whether the pass has a known order to follow; the first training pass has the rehearsal's. */
static bool has_known_order(const hil_store *store)
{
    return store->pass == &store->order[HIL_PASS_TRAIN] && store->pass->known.count > 0;
}

static bool is_declared(const hil_store *store, int32_t entity)
{
    const hil_declared *d = find(store, store->visit.segment);
    for (size_t i = 0; d && i < d->count; ++i)
        if (d->unit[i] == (size_t)(entity / HIL_ENTITIES)) return true;
    return false;
}

static hil_status out_of_order(const hil_store *store, const char *name, const char *what)
{
    return hil_fail(HIL_ERR_USAGE,
                    "parameter %s is %s in segment %s for some data: several ranks allow that only "
                    "where all that a segment may use fits on the device; give more "
                    "--device-memory",
                    name, what, store->visit.name);
}

hil_status hil_segment_admit(const hil_store *store, const hil_param *param, int32_t entity)
{
    if (!needs_same_order(store)) return HIL_OK;
    if (!is_declared(store, entity))
        return hil_fail(HIL_ERR_USAGE,
                        "parameter %s is used in segment %s, which did not say so: with several "
                        "ranks declare it there with hil_model_use",
                        param->name, store->visit.name);
    if (!has_known_order(store) || hil_order_expects(store->pass, entity)) return HIL_OK;
    return out_of_order(store, param->name, "used in another order");
}

/* Fails if the ending visit did not use everything that the known order lists for it. */
static hil_status check_end(const hil_store *store)
{
    const hil_order *order = store->pass;
    if (store->plan->by_segment || !needs_same_order(store) || !has_known_order(store))
        return HIL_OK;
    if (hil_order_expects_mark(order) || order->at >= (int64_t)order->known.count) return HIL_OK;
    const hil_unit *unit =
        &store->unit[hil_order_entity(order->known.use[order->at]) / HIL_ENTITIES];
    return out_of_order(store, unit->member[0].param->name, "left out");
}

static void note_visited(hil_store *store)
{
    const hil_declared *d = find(store, store->visit.segment);
    for (size_t k = 0; d && k < d->count && store->visit.direction == HIL_BACKWARD; ++k) {
        hil_unit *unit = &store->unit[d->unit[k]];
        for (int i = 0; i < unit->uses; ++i)
            unit->use[i].visited |= unit->use[i].segment == store->visit.segment;
    }
}

hil_status hil_segment_exit(hil_store *store)
{
    HIL_TRY(check_end(store));
    if (store->plan->by_segment) HIL_TRY(for_each(store, &store->visit, unpin));
    store->visit = (hil_segment_visit){.segment = HIL_NOWHERE};
    return HIL_OK;
}

hil_status hil_store_pass_exit(hil_store *store)
{
    HIL_TRY(hil_segment_exit(store));
    return hil_store_pass_mark(store);
}

hil_status hil_store_pass_enter(hil_store *store, const hil_segment_visit *visit)
{
    HIL_TRY(hil_segment_exit(store));
    store->visit = *visit;
    store->pass->back = visit->direction == HIL_BACKWARD;
    hil_experts_enter(store, visit);
    HIL_TRY(hil_store_pass_mark(store));
    if (!store->plan->by_segment) return HIL_OK;
    HIL_TRY(pin_all(store));
    note_visited(store);
    return hil_window_prefetch(store);
}

void hil_segment_drop(hil_store *store)
{
    for (size_t u = 0; u < store->units; ++u) {
        hil_unit *unit = &store->unit[u];
        unit->pins = 0;
        unit->held = false;
        for (int i = 0; i < unit->uses; ++i) unit->use[i].held = false;
    }
    store->visit = (hil_segment_visit){.segment = HIL_NOWHERE};
}
