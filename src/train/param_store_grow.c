/* param_store_grow.c - more device memory for a parameter store that runs: what is on disk moves
   there first, then what is in host memory. */
#include "train/param_store.h"

#include "base/alloc.h"
#include "store/store.h"
#include "store/unit.h"
#include "store/update.h"

static bool is_on_disk(const hil_param_store *store, size_t unit)
{
    for (int s = 0; s < HIL_UNIT_STATES; ++s)
        if (store->plan.unit[unit].tier[s] == HIL_DISK) return true;
    return false;
}

/* Lists units that fit into `bytes`, in the order of the forward; returns what they take. */
static uint64_t choose(const hil_param_store *store, uint64_t bytes, size_t *chosen, size_t *count)
{
    uint64_t taken = 0;
    for (int round = 0; round < 2; ++round)
        for (size_t u = 0; u < store->outline.units; ++u) {
            uint64_t need = hil_store_promotion(store->states, u);
            if (!need || need > bytes - taken || is_on_disk(store, u) != (round == 0)) continue;
            taken += need;
            chosen[(*count)++] = u;
        }
    return taken;
}

static hil_status promote(hil_param_store *store, const size_t *chosen, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        hil_unit_place *place = &store->plan.unit[chosen[i]];
        HIL_TRY(hil_store_promote(store->states, chosen[i]));
        for (int s = 0; s < HIL_UNIT_STATES; ++s) place->tier[s] = HIL_DEVICE;
        place->device_updates = false;
    }
    return HIL_OK;
}

hil_status hil_param_store_grow(hil_param_store *store, uint64_t bytes, uint64_t *taken)
{
    hil_status status;
    size_t *chosen = NULL, count = 0;
    *taken = 0;
    if (store->phase != HIL_PARAM_STORE_IDLE || store->comm || store->tiers.more_region)
        return hil_fail(HIL_ERR_USAGE,
                        "hil_param_store_grow is called once, between steps, on one rank");
    HIL_TRY_DONE(hil_store_sweep_wait(store->states));
    HIL_TRY_DONE(hil_param_store_saved(store));
    HIL_TRY_DONE(HIL_ALLOC(store->outline.units, &chosen));
    uint64_t all = choose(store, bytes, chosen, &count);
    if (!count) goto done;
    HIL_TRY_DONE(hil_tiers_extend(&store->tiers, (size_t)all));
    store->budget.device += all;
    *taken = all;
    HIL_TRY_DONE(promote(store, chosen, count));
done:
    hil_free(chosen);
    return status;
}
