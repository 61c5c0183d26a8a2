/* The account of a step has the bytes that the links moved, and stalls by reason. */
#include "train/account.h"

#include "base/alloc.h"
#include "../tier/waiter.h"
#include "base/clock.h"
#include "tier/tiers.h"
#include "plan/outline.h"

#define MIB ((size_t)1 << 20)

static hil_status waited_for(void *context, int64_t index)
{
    (void)context, (void)index;
    waiter_await();
    return HIL_OK;
}

/* Waited for longer than all that came before. */
static hil_status slow(void *context, int64_t index)
{
    (void)index;
    double before = hil_clock_now() - *(const double *)context;
    waiter_await();
    usleep((useconds_t)(before * 1e6));
    return HIL_OK;
}

static hil_extent extent;

/* 3 MiB to disk, back, and to the device; 1 MiB from there; an update that is waited for. */
static void move(hil_tiers *tiers)
{
    char *device = tiers->device_base, *host = tiers->host_base;
    hil_fence fence = {0}, update = {0};
    double begin = hil_clock_now();
    hil_job job = {.link = HIL_LINK_STASH, .run = waited_for};
    CHECK_OK(hil_links_submit(tiers->links, &job, &fence));
    job = (hil_job){.link = HIL_LINK_STASH,
                    .parts = 1,
                    .part = {{HIL_PART_WRITE, NULL, host, 3 * MIB, &extent, 0, 3}}};
    CHECK_OK(hil_links_submit(tiers->links, &job, &fence));
    job = (hil_job){.link = HIL_LINK_FETCH,
                    .after = fence,
                    .parts = 1,
                    .part = {{HIL_PART_READ, host, NULL, 3 * MIB, &extent, 0, 3}}};
    CHECK_OK(hil_links_submit(tiers->links, &job, &fence));
    job =
        (hil_job){.link = HIL_LINK_IN,
                  .after = fence,
                  .parts = 1,
                  .part = {{.kind = HIL_PART_COPY, .to = device, .from = host, .bytes = 3 * MIB}}};
    CHECK_OK(hil_links_submit(tiers->links, &job, &fence));
    job = (hil_job){.link = HIL_LINK_OUT,
                    .after = fence,
                    .parts = 1,
                    .part = {{.kind = HIL_PART_COPY, .to = host, .from = device, .bytes = MIB}}};
    CHECK_OK(hil_links_submit(tiers->links, &job, &fence));
    job = (hil_job){.link = HIL_LINK_UPDATE, .after = fence, .run = slow, .context = &begin};
    CHECK_OK(hil_links_submit(tiers->links, &job, &update));
    atomic_store(&waiter_comes, 1);
    CHECK_OK(hil_links_wait(tiers->links, &fence, HIL_WAIT_GRADIENTS));
    atomic_store(&waiter_comes, 1);
    CHECK_OK(hil_links_wait(tiers->links, &update, HIL_WAIT_UPDATE));
}

int main(void)
{
    hil_tiers tiers;
    hil_step_account a = {.device_peak = 3 * MIB, .host_peak = 4 * MIB}, all = {0};
    hil_plan spent = {.step_seconds = 0.02};
    hil_drive drive = {"/tmp", 64 * MIB, 1};
    uint64_t bytes[HIL_DRIVES] = {16 * MIB};
    CHECK_OK(hil_tiers_open(&tiers, &(hil_tiers_options){.device_bytes = 4 * MIB,
                                                         .host_bytes = 5 * MIB,
                                                         .drives = &drive,
                                                         .drive_count = 1,
                                                         .drive_bytes = bytes}));
    CHECK_OK(hil_disk_take(tiers.disk, 3 * MIB, MIB, &extent, &(hil_fence){0}));
    move(&tiers);
    hil_account_take(tiers.links, &a, &spent);
    CHECK_INT(a.device_peak, 3 * MIB);
    CHECK_INT(a.disk_read_bytes, 3 * MIB);
    CHECK_INT(a.disk_written_bytes, 3 * MIB);
    CHECK_INT(a.to_device_bytes, 3 * MIB);
    CHECK_INT(a.to_host_bytes, MIB);
    CHECK(a.wait_seconds.gradients > 0 && a.wait_seconds.update >= 0.01);
    CHECK(a.wait_seconds.weights == 0 && a.wait_seconds.activations == 0 &&
          a.wait_seconds.memory == 0);
    CHECK(a.exposed_update_seconds == a.wait_seconds.update);
    CHECK_INT(spent.disk_read, 3 * MIB);
    CHECK(spent.busy[HIL_LINK_UPDATE] >= 0.02 && spent.busy[HIL_LINK_READ] == 0);
    CHECK_TEXT(hil_plan_limit(&spent), "update");
    hil_account_add(&all, &a);
    double waited = a.wait_seconds.update;
    a = (hil_step_account){0};
    hil_account_take(tiers.links, &a, &spent); /* nothing happened since */
    CHECK_INT(a.disk_read_bytes + a.to_host_bytes, 0);
    CHECK(a.wait_seconds.update == 0);
    a.host_peak = 9;
    a.disk_peak = 9 * MIB;
    a.to_host_bytes = 5;
    a.wait_seconds.update = 1;
    hil_account_add(&all, &a);
    CHECK_INT(all.host_peak, 4 * MIB);
    CHECK_INT(all.disk_peak, 9 * MIB);
    CHECK_INT(all.to_host_bytes, MIB + 5);
    CHECK_NEAR(all.wait_seconds.update, waited + 1, 1e-12);
    hil_disk_give(tiers.disk, &extent, NULL);
    hil_tiers_close(&tiers);
    return 0;
}
