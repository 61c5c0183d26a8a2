/* After the first step every step does the same: no allocation, no new descriptor, the same bytes
   on every link; all of it, with the peaks, matches a rehearsal. Also on a device with its own
   memory. */
#include "optim/update.h"
#include "rehearsal.h"
#include "runs.h"
#include "store/pass.h"
#include "store/store.h"
#include "store/update.h"

enum { STEPS = 6 };

/* The counts of a run that do not depend on time. */
typedef struct counts {
    uint64_t link[STEPS][HIL_LINKS];
    uint64_t moved[STEPS][4]; /* read, written, to the device, to the host */
    uint64_t peak[HIL_TIERS];
    uint64_t drive[HIL_DRIVES];
} counts;

/* A device has kernels for real rules only. */
static hil_status sweep(rig *r, double norm)
{
    hil_optimizer optimizer = {&hil_rules[HIL_ADAMW], 0.9, 0.99, 1e-8, 0.1, 1};
    hil_update update = {.lr = 0.01, .norm = norm, .loss_scale = 1, .updates = 1};
    if (r->saving) hil_store_save_next(r->store, r->saving);
    return hil_optimizer_update(r->store, &optimizer, &update);
}

/* A step, then a pass over the weights. */
static hil_status step(rig *r)
{
    double norm;
    HIL_TRY(rig_step(r, -1, &norm));
    HIL_TRY(hil_store_pass_begin(r->store, HIL_PASS_LOSS));
    for (int p = 0; p < PARAMS; ++p) {
        if (p % 2 == 0) HIL_TRY(hil_store_pass_mark(r->store));
        HIL_TRY(rig_use(r, p, -1, 0));
    }
    HIL_TRY(hil_store_pass_end(r->store));
    return hil_store_sweep_wait(r->store);
}

static void note(rig *r, int s, counts *out)
{
    hil_account account;
    hil_links_take_account(r->tiers.links, &account);
    memcpy(out->link[s], account.bytes, sizeof account.bytes);
    out->moved[s][0] = account.disk_read;
    out->moved[s][1] = account.disk_written;
    out->moved[s][2] = account.to_device;
    out->moved[s][3] = account.to_host;
}

static void note_end(rig *r, counts *out)
{
    hil_store_peaks(r->store, out->peak);
    hil_disk_extent(r->tiers.disk, out->drive);
}

static void rehearse(rig *r, int steps, counts *out)
{
    hil_pool *dry = rehearsal_open(
        r->store, (hil_tiers_options){.drives = r->drive, .drive_count = 2, .device = r->device},
        (hil_store_opening){.tiers = &r->tiers, .plan = &r->plan});
    r->dry = true;
    for (int s = 0; s < steps; ++s) {
        CHECK_OK(step(r));
        note(r, s, out);
    }
    note_end(r, out);
    r->dry = false;
    hil_store_close(r->store);
    hil_tiers_close(&r->tiers);
    hil_pool_destroy(dry);
}

static hil_status open_real(rig *r, const counts *rehearsed)
{
    hil_tiers_options tiers = {.device_bytes = 8 << 20,
                               .host_bytes = 16 << 20,
                               .drives = r->drive,
                               .drive_count = 2,
                               .drive_bytes = rehearsed->drive,
                               .device = r->device};
    hil_store_opening opening = {
        .tiers = &r->tiers, .plan = &r->plan, .pool = r->pool, .update = r->update};
    HIL_TRY(hil_tiers_open(&r->tiers, &tiers));
    HIL_TRY(hil_store_open(r->store, &opening));
    return hil_store_initialise(r->store, 3);
}

static void check_run(int placement, int frozen, bool prefetch, hil_device *device)
{
    static const counts none;
    counts rehearsed = none, real = none;
    rig r;
    runs_create_frozen(&r, HIL_BF16, placement, frozen);
    r.plan.prefetch = prefetch;
    if (device) {
        r.device = device;
        r.plan.discrete = true;
        r.sweep = sweep;
    }
    if (placement % 2) r.plan.spill = HIL_HOST;
    rehearse(&r, 1, &rehearsed); /* learns the order */
    rehearse(&r, STEPS, &rehearsed);
    CHECK_OK(open_real(&r, &rehearsed));
    hil_account before;
    hil_links_take_account(r.tiers.links, &before);
    int descriptors = open_descriptors();
    long made = 0;
    for (int s = 0; s < STEPS; ++s) {
        CHECK_OK(step(&r));
        note(&r, s, &real);
        if (s == 1) made = hil_alloc_count();
    }
    CHECK_INT(hil_alloc_count(), made);
    CHECK_INT(open_descriptors(), descriptors);
    note_end(&r, &real);
    for (int s = 0; s < STEPS; ++s) {
        rehearsal_same("links of another step", real.link[s], real.link[0], HIL_LINKS);
        rehearsal_same("links of the rehearsal", real.link[s], rehearsed.link[s], HIL_LINKS);
        rehearsal_same("bytes of the rehearsal", real.moved[s], rehearsed.moved[s], 4);
    }
    rehearsal_same("peaks of the rehearsal", real.peak, rehearsed.peak, HIL_TIERS);
    rehearsal_same("drives of the rehearsal", real.drive, rehearsed.drive, HIL_DRIVES);
    rig_close(&r);
}

int main(void)
{
    fixture_open();
    hil_device *device = adding_device(1, 50);
    for (int placement = EVERYTHING_ON_DEVICE; placement < MIXED + 3; ++placement)
        for (int prefetch = 0; prefetch < 2; ++prefetch) {
            for (int frozen = -1; frozen <= 3; frozen += frozen < 0 ? 1 : 3)
                if (!CHECK_SLOW || (placement + frozen + 1) % 2 == prefetch)
                    check_run(placement, frozen, prefetch, NULL);
            if (!CHECK_SLOW || placement % 2 == prefetch)
                check_run(placement, placement % 4, prefetch, device);
        }
    device->close(device);
    fixture_close();
    return 0;
}
