/* promotion.c - moves all states of a unit to the device, after the store was opened. Reading and
   writing them as numbers is exact, whatever their encoding. */
#include "base/alloc.h"
#include "io/align.h"
#include "store/home.h"
#include "store/sweep.h"

#include <string.h>

static bool is_away(const hil_home *home)
{
    return home->exists && home->tier != HIL_DEVICE;
}

size_t hil_store_promotion(const hil_store *store, size_t number)
{
    const hil_unit *unit = &store->unit[number];
    size_t bytes = 0;
    if (!hil_store_alone(store) || unit->dtype == HIL_U8) return 0;
    for (int s = 0; s < HIL_GRADIENT; ++s)
        if (is_away(&unit->home[s])) bytes += hil_align_up(unit->home[s].bytes);
    for (int i = 0; i < unit->uses; ++i)
        if (is_away(&unit->use[i].home)) bytes += hil_align_up(unit->use[i].home.bytes);
    /* Without plan->grows, slots were made for the units that were on the device at first. */
    return hil_unit_saved_staged(store, unit) > store->sweep->host_slot_bytes ? 0 : bytes;
}

/* Reads from some homes of the unit and writes to others. */
typedef struct transfer {
    hil_unit *unit;
    hil_home from[HIL_GRADIENT], to[HIL_GRADIENT];
    float *buffer;
} transfer;

static void set_homes(hil_unit *unit, const hil_home homes[HIL_GRADIENT])
{
    memcpy(unit->home, homes, sizeof unit->home);
}

static hil_status move_member(const transfer *t, const hil_member *member, hil_state state)
{
    hil_param *param = member->param;
    hil_store *store = param->store;
    int64_t range = hil_store_range(store);
    for (int64_t at = 0, count; at < member->count; at += count) {
        count = member->count - at < range ? member->count - at : range;
        int64_t first = member->first + at;
        set_homes(t->unit, t->from);
        HIL_TRY(hil_store_read(store, param, state, first, count, t->buffer));
        set_homes(t->unit, t->to);
        HIL_TRY(hil_store_write(store, param, state, first, count, t->buffer));
    }
    return HIL_OK;
}

static hil_status move_states(hil_store *store, const transfer *t)
{
    for (int m = 0; m < t->unit->members; ++m)
        for (int s = HIL_MASTER; s <= HIL_MOMENT2; ++s)
            if (hil_param_has(t->unit->member[m].param, (hil_state)s))
                HIL_TRY(move_member(t, &t->unit->member[m], (hil_state)s));
    return hil_store_finish_writes(store);
}

static hil_status open_homes(hil_store *store, transfer *t)
{
    for (int s = 0; s < HIL_GRADIENT; ++s) {
        t->from[s] = t->to[s] = t->unit->home[s];
        if (is_away(&t->from[s]))
            HIL_TRY(hil_home_open(store, t->unit, (hil_unit_state)s, HIL_DEVICE, &t->to[s]));
    }
    return HIL_OK;
}

hil_status hil_store_promote(hil_store *store, size_t number)
{
    hil_status status;
    transfer t = {.unit = &store->unit[number]};
    assert(!store->pass && hil_store_promotion(store, number));
    HIL_TRY_DONE(HIL_ALLOC(hil_store_range(store), &t.buffer));
    HIL_TRY_DONE(open_homes(store, &t));
    status = move_states(store, &t);
    set_homes(t.unit, status == HIL_OK ? t.to : t.from);
    HIL_TRY_DONE(status);
    for (int s = 0; s < HIL_GRADIENT; ++s)
        if (is_away(&t.from[s])) hil_home_close(store, &t.from[s]);
    for (int i = 0; i < t.unit->uses; ++i) {
        hil_home *away = &t.unit->use[i].home, here;
        if (!is_away(away)) continue;
        HIL_TRY_DONE(hil_home_open(store, t.unit, HIL_GRADIENT, HIL_DEVICE, &here));
        hil_home_close(store, away);
        *away = here;
    }
done:
    hil_free(t.buffer);
    return status;
}
