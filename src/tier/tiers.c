/* tiers.c - opens the tiers of a run: address space, drives, links. */
#include "tier/tiers.h"

#include "base/alloc.h"
#include "base/text.h"

#include <string.h>
#include <sys/mman.h>

#define HUGE_FROM ((size_t)64 << 20) /* below, rounding to huge pages would count */
#define DISK_LINKS 4                 /* FETCH, STASH, READ, WRITE */
/* Where rehearsals have their memory: addresses that no program can have. They need no room in its
   address space, which limits and tools (ulimit -v, ThreadSanitizer) can make small. */
#define NOWHERE ((uintptr_t)1 << 52)

static hil_status map(const char *tier, size_t bytes, char **out)
{
    void *base = MAP_FAILED;
    if (!hil_alloc_refused())
        base = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        char text[32];
        return hil_fail(HIL_ERR_MEMORY,
                        "out of memory: cannot get %s of %s memory: give less --%s-memory, or "
                        "raise the limits on this process (ulimit -v)",
                        hil_text_bytes(text, bytes), tier, tier);
    }
    (void)madvise(base, bytes, bytes >= HUGE_FROM ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    *out = base;
    return HIL_OK;
}

static void unmap(char *base, size_t bytes)
{
    if (base) munmap(base, bytes ? bytes : 1);
}

static hil_status open_drives(hil_tiers *tiers, const hil_tiers_options *options)
{
    if (options->drive_count == 0) return HIL_OK;
    HIL_TRY(hil_disk_create(&tiers->disk, options->drives, options->drive_count, tiers->rehearse));
    if (tiers->rehearse) return HIL_OK;
    hil_io_options io;
    hil_io_defaults(&io);
    io.engine = options->io;
    io.requests = DISK_LINKS * HIL_LINK_FLIGHTS * HIL_JOB_PARTS * HIL_DISK_REQUESTS;
    HIL_TRY(hil_io_create(&tiers->io, &io));
    return hil_disk_open(tiers->disk, tiers->io, options->drive_bytes);
}

hil_status hil_tiers_open(hil_tiers *tiers, const hil_tiers_options *options)
{
    hil_status status = HIL_OK;
    *tiers = (hil_tiers){.rehearse = options->speeds != NULL,
                         .device = options->device,
                         .device_bytes = options->device_bytes,
                         .host_bytes = options->host_bytes};
    if (tiers->rehearse) {
        assert(tiers->device_bytes <= NOWHERE && tiers->host_bytes <= NOWHERE);
        tiers->device_base = (char *)NOWHERE;
        tiers->host_base = (char *)(2 * NOWHERE);
    } else {
        HIL_TRY_DONE(map("device", tiers->device_bytes, &tiers->device_base));
        HIL_TRY_DONE(map("host", tiers->host_bytes, &tiers->host_base));
    }
    HIL_TRY_DONE(hil_region_create(&tiers->device_region, tiers->device_bytes, HIL_IO_ALIGN));
    HIL_TRY_DONE(hil_region_create(&tiers->host_region, tiers->host_bytes, HIL_IO_ALIGN));
    HIL_TRY_DONE(open_drives(tiers, options));
    HIL_TRY_DONE(hil_links_create(
        &tiers->links, &(hil_links_options){.disk = tiers->disk, .speeds = options->speeds}));
done:
    if (status != HIL_OK) hil_tiers_close(tiers);
    return status;
}

void hil_tiers_close(hil_tiers *tiers)
{
    hil_links_destroy(tiers->links);
    hil_disk_destroy(tiers->disk);
    hil_io_destroy(tiers->io);
    hil_region_destroy(tiers->host_region);
    hil_region_destroy(tiers->device_region);
    if (!tiers->rehearse) {
        unmap(tiers->host_base, tiers->host_bytes);
        unmap(tiers->device_base, tiers->device_bytes);
    }
    *tiers = (hil_tiers){0};
}

hil_status hil_tiers_take(hil_tiers *tiers, hil_tier tier, size_t bytes, const char *what,
                          void **memory)
{
    assert(tier == HIL_DEVICE || tier == HIL_HOST);
    bool device = tier == HIL_DEVICE;
    hil_region *region = device ? tiers->device_region : tiers->host_region;
    size_t budget = device ? tiers->device_bytes : tiers->host_bytes, offset;
    hil_fence after;
    bool found;
    *memory = NULL;
    HIL_TRY(hil_region_take(region, bytes, &offset, &after, &found));
    if (!found) {
        char want[32], all[32], left[32];
        return hil_fail(
            HIL_ERR_BUDGET, "%s memory of %s is too little: %s needs %s and %s are left",
            device ? "device" : "host", hil_text_bytes(all, budget), what,
            hil_text_bytes(want, bytes), hil_text_bytes(left, budget - hil_region_used(region)));
    }
    *memory = (device ? tiers->device_base : tiers->host_base) + offset;
    return HIL_OK;
}
