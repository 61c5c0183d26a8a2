/* home.c - takes the memory or disk pages in which each state of each unit is kept. */
#include "io/align.h"
#include "store/home.h"

#include <string.h>

static size_t state_bytes(const hil_store *store, const hil_unit *unit, hil_unit_state state)
{
    const hil_store_options *o = &store->options;
    size_t weight = (size_t)unit->slice * hil_dtype_size(unit->dtype);
    if (state == HIL_WEIGHT) return weight;
    if (!o->training || !unit->trainable) return 0;
    switch (state) {
    case HIL_GRADIENT:
        return weight;
    case HIL_REST:
        return hil_rest_bytes(unit->dtype, unit->slice);
    case HIL_STATE1:
        return o->moments > 0 ? hil_codec_bytes(o->codec, unit->slice) : 0;
    default:
        return o->moments > 1 && !hil_unit_is_matrix(unit) ? hil_codec_bytes(o->codec, unit->slice)
                                                           : 0;
    }
}

size_t hil_unit_bytes(const hil_store *store, size_t unit, hil_unit_state state)
{
    return state_bytes(store, &store->unit[unit], state);
}

size_t hil_chunk_bytes(const hil_store *store, const hil_unit *unit, hil_unit_state state,
                       int64_t count)
{
    switch (state) {
    case HIL_REST:
        return hil_rest_bytes(unit->dtype, count);
    case HIL_STATE1:
    case HIL_STATE2:
        return hil_codec_bytes(store->options.codec, count);
    default:
        return (size_t)count * hil_dtype_size(unit->dtype);
    }
}

bool hil_unit_on_device(const hil_unit *unit)
{
    for (int s = 0; s < HIL_GRADIENT; ++s)
        if (unit->home[s].exists && unit->home[s].tier != HIL_DEVICE) return false;
    for (int i = 0; i < unit->uses; ++i)
        if (unit->use[i].home.exists && unit->use[i].home.tier != HIL_DEVICE) return false;
    return true;
}

bool hil_unit_device_updates(const hil_store *store, const hil_unit *unit)
{
    if (!store->plan->device_slots || !store->plan->unit[unit - store->unit].device_updates)
        return false;
    if (!store->device && !store->opening.speeds) return false;
    for (int s = 0; s < HIL_GRADIENT; ++s)
        if (unit->home[s].exists && unit->home[s].tier != HIL_HOST) return false;
    for (int i = 0; i < unit->uses; ++i)
        if (unit->use[i].home.exists && unit->use[i].home.tier == HIL_DISK) return false;
    return true;
}

/* Zeroes memory of a device. The host's memory is zero when it is allocated. */
static hil_status zero_home(hil_store *store, const hil_home *home)
{
    hil_device *device = store->device;
    if (!device) return HIL_OK;
    return device->queue->zero(device, HIL_STREAM_COMPUTE, home->memory, home->bytes);
}

/* Pins the states that are copied directly from and to the device. The others are staged, or never
   copied: of these the rest of the masters is needed as soon as the weights. */
static hil_status pin(hil_store *store, const hil_unit *unit, hil_unit_state state,
                      const hil_home *home)
{
    bool device = store->plan->unit[unit - store->unit].device_updates;
    hil_pin_order order = HIL_PIN_LATER;
    if (state == HIL_WEIGHT) order = HIL_PIN_FIRST;
    if (state == HIL_REST) order = device ? HIL_PIN_FIRST : HIL_PIN_TOUCH;
    if (state == HIL_GRADIENT) order = HIL_PIN_NEXT;
    if (order == HIL_PIN_LATER && !device) return HIL_OK;
    return hil_tiers_pin(store->tiers, home->memory, hil_align_up(home->bytes), order);
}

/* See [Note: kept sums]. */
static bool keeps_sum(const hil_store *store, const hil_unit *unit, hil_unit_state state,
                      hil_tier tier)
{
    return state == HIL_GRADIENT && tier == HIL_DEVICE && store->plan->keeps_sums &&
           store->discrete && hil_unit_on_device(unit) && !hil_unit_is_matrix(unit);
}

hil_status hil_home_open(hil_store *store, const hil_unit *unit, hil_unit_state state,
                         hil_tier tier, hil_home *home)
{
    static const char *const what[] = {"weights", "master weights", "first moments",
                                       "second moments", "gradients"};
    const hil_plan *plan = store->plan;
    size_t bytes = state_bytes(store, unit, state);
    *home = (hil_home){0};
    if (!bytes) return HIL_OK;
    home->exists = true;
    home->bytes = bytes;
    home->tier = tier;
    home->sum = keeps_sum(store, unit, state, tier);
    if (home->sum) return HIL_OK;
    if (home->tier != HIL_DISK) {
        HIL_TRY(
            hil_tiers_take(store->tiers, home->tier, bytes, what[state], (void **)&home->memory));
        store->resident[home->tier] += hil_align_up(bytes);
        return home->tier == HIL_DEVICE ? zero_home(store, home) : pin(store, unit, state, home);
    }
    if (!store->tiers->disk)
        return hil_fail(HIL_ERR_USAGE, "the plan keeps %s on disk, but there is no --disk",
                        what[state]);
    /* On disk every chunk is one page of whole disk blocks, so pages of 8-bit moments are padded.
     */
    int64_t chunks = (unit->slice + plan->chunk - 1) / plan->chunk;
    size_t page = hil_align_up(hil_chunk_bytes(store, unit, state, plan->chunk));
    int64_t last = unit->slice - (chunks - 1) * plan->chunk;
    size_t all = (size_t)(chunks - 1) * page + hil_chunk_bytes(store, unit, state, last);
    hil_fence after; /* not needed: the pages are new */
    return hil_disk_take(store->tiers->disk, all, page, &home->extent, &after);
}

static hil_status open_planned(hil_store *store, const hil_unit *unit, hil_unit_state state,
                               hil_home *home)
{
    hil_tier tier = (hil_tier)store->plan->unit[unit - store->unit].tier[state];
    return hil_home_open(store, unit, state, tier, home);
}

hil_status hil_home_open_late(hil_store *store, const hil_unit *unit, hil_home *gradient)
{
    bool device = store->discrete && hil_unit_on_device(unit);
    hil_tier tier = device ? HIL_DEVICE : HIL_HOST;
    HIL_TRY(hil_home_open(store, unit, HIL_GRADIENT, tier, gradient));
    return hil_tiers_pin_all(store->tiers);
}

void hil_home_close(hil_store *store, hil_home *home)
{
    if (home->exists && home->tier == HIL_DISK && home->extent.at)
        hil_disk_give(store->tiers->disk, &home->extent, NULL);
    *home = (hil_home){0};
}

hil_status hil_homes_open(hil_store *store)
{
    for (size_t u = 0; u < store->units; ++u) {
        hil_unit *unit = &store->unit[u];
        for (int s = 0; s < HIL_GRADIENT; ++s)
            HIL_TRY(open_planned(store, unit, (hil_unit_state)s, &unit->home[s]));
        for (int i = 0; i < unit->uses; ++i)
            HIL_TRY(open_planned(store, unit, HIL_GRADIENT, &unit->use[i].home));
    }
    return hil_tiers_populate(store->tiers, hil_pool_threads(store->opening.pool));
}

/* Frees in reverse order, which is fastest for regions. */
void hil_homes_close(hil_store *store)
{
    for (size_t u = store->units; u-- > 0;) {
        hil_unit *unit = &store->unit[u];
        for (int i = unit->uses; i-- > 0;) {
            hil_home_close(store, &unit->use[i].home);
            unit->use[i].left = (hil_fence){0};
        }
        for (int s = HIL_GRADIENT; s-- > 0;) hil_home_close(store, &unit->home[s]);
        unit->ready = unit->reading = unit->swept = unit->settled = (hil_fence){0};
        unit->pins = 0;
    }
    memset(store->resident, 0, sizeof store->resident);
}
