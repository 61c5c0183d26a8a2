/* window.c - the window on the device: prefetches weights and sums in the order of use, and evicts
   first what is used furthest in the future. No decision depends on timing. */
#include "base/alloc.h"
#include "base/text.h"
#include "store/expert.h"
#include "store/fetch.h"
#include "store/segment.h"
#include "store/window.h"

#include <string.h>

static hil_unit *unit_at(const hil_store *store, int32_t entity)
{
    return &store->unit[entity / HIL_ENTITIES];
}

/* The use of a sum's entity; NULL for a weight. */
static hil_use *use_at(const hil_store *store, int32_t entity)
{
    int use = entity % HIL_ENTITIES;
    return use ? &unit_at(store, entity)->use[use - 1] : NULL;
}

static bool is_here(const hil_store *store, int32_t entity)
{
    const hil_use *use = use_at(store, entity);
    return use ? use->sum.data != NULL : unit_at(store, entity)->copy != NULL;
}

static bool is_resident(const hil_store *store, int32_t entity)
{
    return entity % HIL_ENTITIES == 0 && hil_weight_resident(store, unit_at(store, entity));
}

bool hil_window_has(const hil_store *store, int32_t entity)
{
    return is_resident(store, entity) || is_here(store, entity);
}

static size_t bytes_of(const hil_store *store, int32_t entity)
{
    const hil_unit *unit = unit_at(store, entity);
    return use_at(store, entity) ? (size_t)unit->elements * 4 : hil_weight_bytes(unit);
}

/* The position of the next use. After its last use in a training pass a weight is not needed again,
   because the update changes it; in other passes the next pass uses it again. */
static int64_t next_use(const hil_store *store, int32_t entity)
{
    hil_order *order = store->pass;
    if (!order) return HIL_NEVER;
    int64_t next = hil_order_next(order, entity);
    if (next < hil_order_limit(order)) return next;
    bool training = order == &store->order[HIL_PASS_TRAIN];
    int64_t first = hil_order_first(order, entity);
    if (training || first == HIL_NEVER) return HIL_NEVER;
    return (int64_t)order->known.count + first;
}

/* The list of the window that has the entity, or would have it. */
static hil_entities *list_of(hil_store *store, int32_t entity)
{
    const hil_use *use = use_at(store, entity);
    return use && use->summing ? &store->summing : &store->here;
}

/* Makes room for one more entity. */
static hil_status list_reserve(hil_entities *list)
{
    return HIL_GROW(&list->entity, &list->room, list->count + 1);
}

static size_t *place_of(const hil_store *store, int32_t entity)
{
    hil_use *use = use_at(store, entity);
    return use ? &use->place : &unit_at(store, entity)->place;
}

/* There is room for it. */
static void list_add(const hil_store *store, hil_entities *list, int32_t entity)
{
    *place_of(store, entity) = list->count;
    list->entity[list->count++] = entity;
}

void hil_window_remove(hil_store *store, int32_t entity)
{
    hil_entities *list = list_of(store, entity);
    size_t place = *place_of(store, entity);
    if (place >= list->count || list->entity[place] != entity) return;
    int32_t last = list->entity[--list->count];
    list->entity[place] = last;
    *place_of(store, last) = place;
}

hil_status hil_window_start_summing(hil_store *store, int32_t sum)
{
    HIL_TRY(list_reserve(&store->summing));
    hil_window_remove(store, sum);
    use_at(store, sum)->summing = true;
    list_add(store, &store->summing, sum);
    return HIL_OK;
}

/* Spills a sum to the tier that the plan names; to disk, if a step needs more host memory than was
   planned and there is a disk. */
static hil_status spill(hil_store *store, hil_use *use)
{
    bool disk = store->tiers->disk && hil_ring_bytes(store->ring);
    hil_status status =
        hil_movable_offload(store->spilled, &use->sum, (hil_tier)store->plan->spill);
    if (status != HIL_ERR_BUDGET || store->plan->spill == HIL_DISK || !disk) return status;
    return hil_movable_offload(store->spilled, &use->sum, HIL_DISK);
}

/* Whether it may be a sum with gradients of this step. Asks for `visited` where ranks may take
   different paths, because `summing` depends on the path: the answer is the same on all ranks. */
static bool is_summed(const hil_store *store, const hil_use *use)
{
    return use && (store->plan->by_segment ? use->visited : use->summing || use->idle);
}

static hil_status evict(hil_store *store, int32_t entity)
{
    hil_unit *unit = unit_at(store, entity);
    hil_use *use = use_at(store, entity);
    if (is_summed(store, use)) store->spilling = true;
    if (!use) {
        hil_weight_free(store, unit);
    } else if (use->summing) {
        HIL_TRY(spill(store, use));
    } else {
        hil_movable_free(store->spilled, &use->sum);
    }
    hil_window_remove(store, entity);
    if (store->pass) {
        int64_t next = hil_order_next(store->pass, entity);
        if (next < store->pass->ahead) store->pass->ahead = next;
    }
    return HIL_OK;
}

static int pins_of(const hil_store *store, int32_t entity)
{
    const hil_use *use = use_at(store, entity);
    return use ? use->pins : unit_at(store, entity)->pins;
}

hil_status hil_window_clear(hil_store *store)
{
    hil_entities *list[] = {&store->here, &store->summing};
    for (int k = 0; k < 2; ++k)
        for (size_t i = list[k]->count; i-- > 0;)
            if (!pins_of(store, list[k]->entity[i])) HIL_TRY(evict(store, list[k]->entity[i]));
    return HIL_OK;
}

hil_status hil_window_renew(hil_store *store)
{
    hil_window_reclaim(store);
    for (size_t u = 0; u < store->units; ++u) {
        hil_unit *unit = &store->unit[u];
        hil_window_forget(store, unit);
        for (int i = 0; i < unit->uses && store->spilling; ++i)
            if (unit->use[i].sum.data) HIL_TRY(evict(store, hil_entity(store, unit, i)));
    }
    return HIL_OK;
}

void hil_window_forget(hil_store *store, hil_unit *unit)
{
    if (!unit->copy) return;
    hil_window_remove(store, hil_entity(store, unit, HIL_OF_WEIGHT));
    hil_weight_free(store, unit);
}

/* Whether the entity is a sum that was prefetched for a later visit: evicting it copies nothing.
   Asks for `visited`, not `summing`, which depends on the path of the data: evictions must be the
   same on all ranks. */
static bool is_empty(const hil_store *store, int32_t entity)
{
    const hil_use *use = use_at(store, entity);
    return store->plan->by_segment && use && !use->visited;
}

/* Removes the oldest copy-out buffer from the list. */
static hil_outgoing remove_first(hil_store *store)
{
    hil_outgoing first = store->outgoing[0];
    memmove(store->outgoing, store->outgoing + 1, (size_t)--store->outgoings * sizeof first);
    return first;
}

static void give_first(hil_store *store)
{
    hil_outgoing first = remove_first(store);
    hil_buffers_give_after(store->window, first.memory, &first.after);
}

hil_status hil_window_take_outgoing(hil_store *store, size_t bytes, void **out)
{
    if (store->outgoings < HIL_OUTGOING || store->outgoing[0].bytes < bytes) {
        HIL_TRY(hil_window_room(store, bytes));
        return hil_buffers_take(store->window, bytes, out);
    }
    hil_outgoing first = remove_first(store);
    hil_status status = hil_links_follow(store->links, &first.after, HIL_WAIT_MEMORY);
    if (status != HIL_OK) hil_buffers_give_after(store->window, first.memory, &first.after);
    *out = status == HIL_OK ? first.memory : NULL;
    return status;
}

void hil_window_give_outgoing(hil_store *store, void *memory, size_t bytes, const hil_fence *after)
{
    if (!store->plan->discrete) {
        hil_buffers_give_after(store->window, memory, after);
        return;
    }
    if (store->outgoings == HIL_OUTGOING) give_first(store);
    store->outgoing[store->outgoings++] = (hil_outgoing){memory, bytes, *after};
}

void hil_window_reclaim(hil_store *store)
{
    while (store->outgoings) give_first(store);
}

/* [Note: costly sums] Evicting a sum that has been added to moves it over the bus twice, evicting a
   weight once: so a prefetch evicts a weight. But a sum of a segment whose visits are over is idle
   until the next group of micro-batches. If the weight that would be evicted instead is used OFTEN
   times before that, and fetched each time, the sum is evicted. */
#define OFTEN 8
/* Chooses what a prefetch evicts: the weight (-1: none), or a sum used after position `idle`. */
static int32_t choose_victim(const hil_store *store, int32_t weight, int64_t idle)
{
    const hil_entities *sums = &store->summing;
    int32_t sum = -1;
    if (weight < 0 || !hil_order_often(store->pass, weight, OFTEN, HIL_NEVER)) return weight;
    for (size_t i = 0; i < sums->count; ++i) {
        int64_t next = next_use(store, sums->entity[i]);
        if (next <= idle || pins_of(store, sums->entity[i])) continue;
        sum = sums->entity[i];
        idle = next;
    }
    return sum >= 0 && hil_order_often(store->pass, weight, OFTEN, idle) ? sum : weight;
}

/* [Note: far uses] If micro-batches pass a segment together and its weights and sums do not fit in
   the window, each visit uses all of them in turn. A prefetch that evicted entities used only a
   little later would move all of them in each visit. So it evicts only entities used at least
   FURTHER times as far in the future: then about twice the bytes that do not fit are moved. */
#define FURTHER 2
static int64_t far_from(const hil_store *store, int64_t horizon)
{
    bool together = store->pass == &store->order[HIL_PASS_TRAIN] && store->plan->group != 1;
    if (horizon < 0 || horizon >= HIL_NEVER - 1 || !together) return horizon;
    return horizon + (FURTHER - 1) * (horizon - store->pass->at);
}

/* Whether an earlier attempt found nothing to evict for a use at `horizon`. */
static bool is_stuck(const hil_store *store, int64_t horizon)
{
    const hil_order *order = store->pass;
    return order && order->stuck == horizon && order->at < order->stuck_until;
}

/* Nothing can be evicted for `horizon` until the pass is so far that `latest`, the last use of all
   candidates, counts as far. */
static void note_stuck(hil_order *order, int64_t horizon, int64_t latest)
{
    order->stuck = horizon;
    order->stuck_until = HIL_NEVER;
    if (latest > horizon) order->stuck_until = horizon - (latest - horizon) / (FURTHER - 1);
}

/* What can be evicted for a use at `horizon`. */
typedef struct victim {
    int64_t horizon, far;
    int32_t last; /* -1: nothing */
    int64_t latest, near;
    bool later; /* something can be evicted once it is released */
} victim;

/* Finds the victim that is used furthest in the future. */
static void find_victim(const hil_store *store, const hil_entities *list, victim *v)
{
    for (size_t i = 0; i < list->count; ++i) {
        int32_t entity = list->entity[i];
        int64_t next = next_use(store, entity);
        if (next <= v->horizon) continue;
        if (pins_of(store, entity)) {
            v->later = true;
            continue;
        }
        if (is_empty(store, entity)) next = HIL_NEVER;
        if (next > v->near) v->near = next;
        if (next < v->latest || next == v->far || (next == v->latest && entity < v->last)) continue;
        v->last = entity;
        v->latest = next;
    }
}

/* Evicts entities used far after position `horizon` (-1: anything not pinned) until `bytes` fit:
   first those that cost nothing to fetch again, then those used furthest in the future. */
static hil_status make_room(hil_store *store, size_t bytes, int64_t horizon, bool *made)
{
    bool ahead = horizon >= 0, costly = ahead && store->plan->discrete;
    const int64_t far = far_from(store, horizon);
    *made = true;
    while (!hil_buffers_fits(store->window, bytes)) {
        if (store->outgoings && horizon < 0) {
            give_first(store);
            continue;
        }
        victim v = {.horizon = horizon, .far = far, .last = -1, .latest = far, .near = horizon};
        if (!is_stuck(store, horizon)) {
            find_victim(store, &store->here, &v);
            if (costly)
                v.last = choose_victim(store, v.last, far);
            else
                find_victim(store, &store->summing, &v);
        }
        if (v.last < 0) {
            if (ahead && !v.later && horizon == store->pass->ahead)
                note_stuck(store->pass, horizon, v.near);
            *made = false;
            return HIL_OK;
        }
        HIL_TRY(evict(store, v.last));
    }
    return HIL_OK;
}

hil_status hil_window_room(hil_store *store, size_t bytes)
{
    bool made;
    HIL_TRY(make_room(store, bytes, -1, &made));
    if (made) return HIL_OK;
    char need[32], have[32];
    return hil_fail(HIL_ERR_BUDGET,
                    "%s do not fit beside what is in use in the device's %s for weights: give more "
                    "--device-memory or a smaller --tile-size",
                    hil_text_bytes(need, bytes), hil_text_bytes(have, store->plan->window));
}

/* Fills a hollow copy of a weight. */
static hil_status fill(hil_store *store, int32_t entity)
{
    hil_unit *unit = unit_at(store, entity);
    return unit->hollow && !use_at(store, entity) ? hil_weight_fill(store, unit) : HIL_OK;
}

/* Starts the fetch into room that was made before. A new sum only gets memory, with undefined
   contents, and a weight that is not `read` too. */
static hil_status start(hil_store *store, int32_t entity, bool read)
{
    hil_use *use = use_at(store, entity);
    hil_entities *list = list_of(store, entity);
    HIL_TRY(list_reserve(list));
    if (store->pass) store->pass->stuck = HIL_NEVER;
    if (!use) {
        HIL_TRY(hil_weight_reserve(store, unit_at(store, entity)));
    } else if (use->summing) {
        HIL_TRY(hil_movable_prefetch(store->spilled, &use->sum));
    } else {
        use->sum = (hil_movable){.bytes = bytes_of(store, entity)};
        HIL_TRY(
            hil_buffers_take_after(store->window, use->sum.bytes, &use->sum.data, &use->sum.ready));
    }
    list_add(store, list, entity);
    return read ? fill(store, entity) : HIL_OK;
}

hil_status hil_window_bring(hil_store *store, int32_t entity)
{
    bool read = hil_expert_wanted(store, unit_at(store, entity));
    if (hil_window_has(store, entity)) return read ? fill(store, entity) : HIL_OK;
    HIL_TRY(hil_window_room(store, bytes_of(store, entity)));
    const hil_use *use = use_at(store, entity);
    if (use ? use->summing : read) ++store->misses; /* a new sum is not fetched */
    return start(store, entity, read);
}

/* A prefetch may evict entities used after this position. A prefetch of a new sum copies nothing,
   so it must not evict anything that is used again. */
static int64_t horizon_of(const hil_store *store, int32_t entity)
{
    return is_empty(store, entity) ? HIL_NEVER - 1 : store->pass->ahead;
}

hil_status hil_window_prefetch(hil_store *store)
{
    hil_order *order = store->pass;
    if (!order || !store->plan->prefetch) return HIL_OK;
    for (; order->ahead < hil_order_limit(order); ++order->ahead) {
        int32_t entity = hil_order_entity(order->known.use[order->ahead]);
        bool made, read = hil_expert_expected(store, unit_at(store, entity), order->ahead);
        if (hil_window_has(store, entity)) {
            if (read) HIL_TRY(fill(store, entity));
            continue;
        }
        HIL_TRY(make_room(store, bytes_of(store, entity), horizon_of(store, entity), &made));
        if (!made) return HIL_OK;
        HIL_TRY(start(store, entity, read));
    }
    return HIL_OK;
}

hil_status hil_window_use(hil_store *store, int32_t entity)
{
    if (store->pass) HIL_TRY(hil_order_use(store->pass, entity));
    return hil_window_bring(store, entity);
}

hil_status hil_store_acquire(hil_store *store, hil_param *param, int64_t tile, const void **data)
{
    hil_unit *unit = hil_unit_of(store, param, tile);
    int64_t offset = unit->member[param->member].offset;
    size_t at = (size_t)offset * hil_dtype_size(unit->dtype);
    if (!unit->held) {
        int32_t entity = hil_entity(store, unit, HIL_OF_WEIGHT);
        HIL_TRY(hil_segment_admit(store, param, entity));
        HIL_TRY(hil_window_use(store, entity));
    }
    ++unit->pins;
    hil_status status = hil_links_follow(store->links, &unit->swept, HIL_WAIT_UPDATE);
    const char *memory = unit->home[HIL_WEIGHT].memory;
    if (!hil_weight_resident(store, unit)) {
        memory = unit->hollow ? NULL : unit->copy;
        if (status == HIL_OK)
            status = hil_links_follow(store->links, &unit->ready, HIL_WAIT_WEIGHTS);
    }
    if (status == HIL_OK && !unit->held) status = hil_window_prefetch(store);
    if (status != HIL_OK) --unit->pins;
    *data = memory ? memory + at : NULL;
    return status;
}

void hil_store_release(hil_store *store, hil_param *param, int64_t tile)
{
    --hil_unit_of(store, param, tile)->pins;
}
