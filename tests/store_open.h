/* store_open.h - a store with everything on the device, for tests of other layers. */
#ifndef TESTS_STORE_OPEN_H
#define TESTS_STORE_OPEN_H

#include "base/alloc.h"
#include "check.h"
#include "optim/rule.h"
#include "store/store.h"
#include "store/unit.h"

typedef struct store_rig {
    hil_store *store;
    hil_tiers tiers;
    hil_plan plan;
    hil_pool *pool;
} store_rig;

/* Borrows the pool. The store's parameters must be registered. */
static inline void store_rig_open(store_rig *r, hil_store *store, hil_pool *pool,
                                  const hil_store_options *options)
{
    *r = (store_rig){.store = store, .pool = pool};
    CHECK_OK(hil_store_arrange(store, options));
    r->plan = (hil_plan){.window = 256 << 20,
                         .ring = 64 << 10,
                         .chunk = 1 << 20,
                         .slots = 2,
                         .units = hil_store_units(store)};
    CHECK_OK(HIL_ALLOC(r->plan.units, &r->plan.unit));
    hil_tiers_options tiers = {.device_bytes = (size_t)2 << 30, .host_bytes = 256 << 20};
    CHECK_OK(hil_tiers_open(&r->tiers, &tiers));
    hil_store_opening opening = {
        .tiers = &r->tiers, .plan = &r->plan, .pool = pool, .update = pool};
    CHECK_OK(hil_store_open(store, &opening));
}

static inline void store_rig_close(store_rig *r)
{
    hil_store_close(r->store);
    hil_tiers_close(&r->tiers);
    hil_store_destroy(r->store);
    hil_free(r->plan.unit);
}

#endif
