/* param_store_plan.c - plans a parameter store: a window for tiles in use, then device, host and
   disk for the rest. */
#include "train/param_store.h"

#include "base/alloc.h"
#include "base/text.h"
#include "io/align.h"
#include "store/store.h"
#include "store/unit.h"

#define SPILL_PAGE ((size_t)1 << 20)
#define DEVICE_SLOTS_PART 8 /* updates on the device get at most this part of its memory */

/* Sizes that decide how large the window is. */
typedef struct extents {
    size_t least, wish; /* smallest and preferred size of the window */
    uint64_t sums;      /* bytes of all gradients in fp32 */
    uint64_t states;    /* bytes of weights, gradients and optimizer states */
    uint64_t gathered;  /* bytes of all weights, which ranks gather in the window; 0: one rank */
} extents;

static hil_status outline(hil_param_store *store)
{
    size_t units = hil_store_units(store->states);
    HIL_TRY(HIL_ALLOC(units, &store->unit));
    for (size_t u = 0; u < units; ++u) {
        hil_outline_unit *unit = &store->unit[u];
        unit->elements = hil_unit_elements(store->states, u);
        unit->uses = hil_unit_uses(store->states, u);
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            unit->bytes[s] = hil_unit_bytes(store->states, u, (hil_unit_state)s);
    }
    store->outline = (hil_outline){.unit = store->unit,
                                   .units = units,
                                   .micros = 1,
                                   .training = true,
                                   .ranks = hil_comm_size(store->comm),
                                   .lanes = hil_store_lanes(store->states),
                                   .matrix = hil_store_matrix_bytes(store->states)};
    return HIL_OK;
}

/* Bytes in the window while weights and gradient sum of so many elements are acquired. */
static uint64_t in_use(const hil_stored_param *p, int64_t elements)
{
    size_t size = hil_dtype_size(hil_param_dtype(p->param));
    return hil_align_up((uint64_t)elements * size) +
           hil_align_up((uint64_t)elements * sizeof(float));
}

/* The least: the largest tile of a matrix and the vectors of a group, with their sums, twice,
   because tiles in use may fragment the window. More lets transfers run ahead and keeps the sums of
   a group in the window until they are given. */
static void measure_window(const hil_param_store *store, extents *e)
{
    uint64_t tile = 0, vectors = 0, group = 0;
    for (size_t g = 0; g < store->groups; ++g) {
        uint64_t all = 0, small = 0;
        for (size_t i = 0; i < store->params; ++i) {
            const hil_stored_param *p = store->param[i];
            const hil_shape *shape = &hil_param_spec_of(p->param)->shape;
            uint64_t bytes = in_use(p, hil_param_elements(p->param));
            if (p->group != g) continue;
            all += bytes;
            if (shape->ndim == 1) small += bytes;
            uint64_t own = in_use(p, hil_param_tile_rows(p->param) * hil_shape_cols(shape));
            if (shape->ndim == 2 && own > tile) tile = own;
        }
        if (all > group) group = all;
        if (small > vectors) vectors = small;
    }
    uint64_t windows[HIL_WINDOWS]; /* with what ranks need to exchange */
    hil_outline tiles = store->outline;
    tiles.matrix = 0;
    hil_plan_windows(&tiles, false, windows);
    if (store->comm && windows[HIL_WINDOW_LEAST] > tile + vectors)
        tile = windows[HIL_WINDOW_LEAST] - vectors;
    uint64_t least = 2 * (tile + vectors);
    /* A matrix that is updated as a whole has the window for itself. */
    if (least < store->outline.matrix) least = store->outline.matrix;
    uint64_t wish = 2 * group > least + tile ? 2 * group : least + tile;
    e->least = (size_t)least;
    e->wish = (size_t)wish;
}

static extents measure(const hil_param_store *store)
{
    extents e = {.sums = hil_plan_sums(&store->outline)};
    for (size_t u = 0; u < store->outline.units; ++u)
        for (int s = 0; s < HIL_UNIT_STATES; ++s)
            e.states += hil_align_up(hil_outline_bytes(&store->unit[u], s));
    for (size_t u = 0; u < store->outline.units && store->comm; ++u)
        e.gathered +=
            hil_align_up(store->unit[u].bytes[HIL_WEIGHT] * (size_t)hil_comm_size(store->comm));
    measure_window(store, &e);
    return e;
}

/* Lets a device update a part of the states in host memory, as much as the speeds allow. */
static void choose_updates(hil_param_store *store)
{
    hil_plan *plan = &store->plan;
    if (!store->device) return;
    plan->discrete = true;
    plan->device_share = hil_plan_device_share(&store->outline, &store->speeds);
    if (plan->device_share > 0) plan->device_slots = HIL_DEVICE_SLOTS;
    if (hil_plan_besides(plan, &store->outline) > store->budget.device / DEVICE_SLOTS_PART)
        plan->device_slots = 0;
}

static hil_status choose_window(const hil_param_store *store, const extents *e, size_t *out)
{
    uint64_t device = store->budget.device,
             besides = hil_plan_besides(&store->plan, &store->outline) + store->kept.window;
    device = device > besides ? device - besides : 0;
    uint64_t matrix = store->outline.matrix;
    char have[32], need[32], more[32];
    uint64_t least = store->window ? store->window : e->least;
    if (least > device)
        return hil_fail(HIL_ERR_BUDGET,
                        "device memory of %s is too little: %s a window of %s; give %s more%s",
                        hil_text_bytes(have, device),
                        e->least > matrix ? "weights in use need" : "updating a whole matrix needs",
                        hil_text_bytes(need, least),
                        hil_text_bytes(more, least + besides - store->budget.device),
                        store->tile_size == SIZE_MAX ? "" : ", or a smaller tile_size");
    if (store->window && store->window < matrix)
        return hil_fail(HIL_ERR_BUDGET,
                        "a window of %s is too small: updating a whole matrix needs %s; give more, "
                        "or 0 to have it chosen",
                        hil_text_bytes(have, store->window), hil_text_bytes(need, matrix));
    *out = store->window;
    if (*out) return HIL_OK;
    /* If all states fit on the device, only sums use the window, and none is ever evicted. */
    uint64_t sums = e->sums + e->gathered + e->least, most = device / 4 * 3;
    if (e->states + sums <= device)
        *out = (size_t)sums;
    else if (store->device && most > e->least) /* sums that leave the device cross the bus twice */
        *out = (size_t)(sums + e->wish < most ? sums + e->wish : most);
    else if (device / 2 > e->wish)
        *out = e->wish;
    else
        *out = device / 2 < e->least ? e->least : (size_t)(device / 2);
    return HIL_OK;
}

/* Whether the window can hold everything at once, so that nothing is ever evicted. */
static bool is_roomy(const hil_param_store *store, const extents *e)
{
    uint64_t bytes = e->sums;
    for (size_t u = 0; u < store->outline.units && !store->comm; ++u)
        if (store->plan.unit[u].tier[HIL_WEIGHT] != HIL_DEVICE)
            bytes += hil_align_up(store->unit[u].bytes[HIL_WEIGHT]);
    if (store->comm) bytes += e->gathered;
    return bytes + e->least <= store->plan.window;
}

/* If sums may be evicted, reserves room for all of them: in host memory if that pushes no state to
   disk, otherwise on disk. */
static hil_status place(hil_param_store *store, const extents *e)
{
    hil_plan *plan = &store->plan;
    hil_budget budget = store->budget;
    uint64_t missing, need[HIL_TIERS];
    plan->spill = HIL_HOST;
    plan->spilled = 0;
    hil_plan_place(plan, &store->outline, &budget, &missing);
    if (!missing && is_roomy(store, e)) return HIL_OK;
    plan->spilled = (size_t)e->sums;
    hil_plan_place(plan, &store->outline, &budget, &missing);
    hil_plan_needs(plan, &store->outline, need);
    if (budget.disk && (missing || need[HIL_DISK])) {
        plan->spilled = 0;
        plan->spill = HIL_DISK;
        budget.disk = budget.disk > e->sums ? budget.disk - e->sums : 1;
        hil_plan_place(plan, &store->outline, &budget, &missing);
    }
    if (!missing) return HIL_OK;
    char lack[32], states[32], sums[32], device[32], host[32], disk[32];
    return hil_fail(HIL_ERR_BUDGET,
                    "%s are missing: %s of weights, gradients and optimizer states and %s of sums "
                    "do not fit into %s of device memory, %s of host memory and %s of disk",
                    hil_text_bytes(lack, missing), hil_text_bytes(states, e->states),
                    hil_text_bytes(sums, e->sums), hil_text_bytes(device, budget.device),
                    hil_text_bytes(host, budget.host), hil_text_bytes(disk, store->budget.disk));
}

/* Opens the store dry (without memory or files) to count the bytes that it keeps on each drive. */
static hil_status measure_drives(hil_param_store *store, uint64_t sums,
                                 uint64_t drive_bytes[HIL_DRIVES])
{
    const hil_speeds any = {.disk_read = 1, .disk_write = 1, .disk_mixed = 1, .memory = 1};
    hil_tiers_options options = {.device_bytes = store->budget.device,
                                 .host_bytes = store->budget.host,
                                 .drives = store->drive,
                                 .drive_count = store->drive_count,
                                 .speeds = &any};
    hil_tiers tiers = {0};
    hil_pool *dry = NULL;
    hil_extent spilled = {0};
    hil_fence after;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_pool_create_dry(&dry));
    HIL_TRY_DONE(hil_tiers_open(&tiers, &options));
    hil_store_opening opening = {
        .tiers = &tiers, .plan = &store->plan, .pool = dry, .update = dry, .speeds = &any};
    HIL_TRY_DONE(hil_store_open(store->states, &opening));
    if (sums) HIL_TRY_DONE(hil_disk_take(tiers.disk, (size_t)sums, SPILL_PAGE, &spilled, &after));
    hil_disk_extent(tiers.disk, drive_bytes);
done:
    hil_store_close(store->states);
    if (tiers.disk) hil_disk_give(tiers.disk, &spilled, NULL);
    hil_tiers_close(&tiers);
    hil_pool_destroy(dry);
    return status;
}

uint64_t hil_param_store_least_window(const hil_param_store *store)
{
    return measure(store).least;
}

hil_status hil_param_store_plan(hil_param_store *store, uint64_t drive_bytes[HIL_DRIVES])
{
    HIL_TRY(outline(store));
    HIL_TRY(hil_plan_create(&store->plan, &store->outline));
    store->plan.offloaded = store->kept.host;
    store->plan.work = store->kept.window;
    store->plan.prefetch = true;
    store->plan.saves = store->saves;
    store->plan.grows = store->grows;
    store->plan.unrehearsed = true;
    store->plan.ranks = hil_comm_size(store->comm);
    store->plan.connected = store->connection.device_comm != NULL;
    choose_updates(store);
    store->plan.device_budget = store->budget.device;
    store->plan.host_budget = store->budget.host;
    store->plan.disk_budget = store->budget.disk;
    extents e = measure(store);
    HIL_TRY(choose_window(store, &e, &store->plan.window));
    HIL_TRY(place(store, &e));
    uint64_t need[HIL_TIERS];
    hil_plan_needs(&store->plan, &store->outline, need);
    bool spilling = store->plan.spill == HIL_DISK;
    store->plan.late_moments = store->plan.discrete && !need[HIL_DISK] && !spilling;
    if (!need[HIL_DISK] && !spilling && !store->kept.window) store->drive_count = 0;
    if (!store->drive_count) return HIL_OK;
    return measure_drives(store, spilling ? e.sums : 0, drive_bytes);
}
