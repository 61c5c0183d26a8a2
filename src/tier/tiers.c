/* tiers.c - opens the tiers of a run: address space, drives, links. */
#include "tier/tiers.h"

#include "base/alloc.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/align.h"

#include <stdlib.h>
#include <string.h>

#define HUGE_FROM ((size_t)64 << 20) /* smaller ranges would waste memory in huge pages */
#define DISK_LINKS 4                 /* FETCH, STASH, READ, WRITE */
/* Base address of a rehearsal's memory. It cannot be mapped, so it takes no address space, which
   ulimit -v and ThreadSanitizer limit. */
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

/* Allocates memory of the device; plain memory if the CPU is the device. */
static hil_status take_arena(const hil_tiers *tiers, size_t bytes, char **out)
{
    hil_device *device = tiers->device;
    if (!device) return map("device", bytes, out);
    hil_status status = device->heap->alloc(device, bytes, (void **)out);
    if (status != HIL_ERR_MEMORY) return status;
    char text[32], free[32];
    return hil_fail(HIL_ERR_MEMORY,
                    "out of memory: the plan takes %s of %s, which had %s free at the start: give "
                    "less --device-memory, or end what else uses it",
                    hil_text_bytes(text, bytes), device->name,
                    hil_text_bytes(free, device->available));
}

static void give_arena(const hil_tiers *tiers, char *base, size_t bytes)
{
    if (!tiers->device)
        unmap(base, bytes);
    else if (base)
        tiers->device->heap->free(tiers->device, base);
}

static hil_status is_pinned(void *pins, const void *memory, size_t bytes)
{
    return hil_pins_wait(pins, memory, bytes);
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
        HIL_TRY_DONE(take_arena(tiers, tiers->device_bytes, &tiers->device_base));
        HIL_TRY_DONE(map("host", tiers->host_bytes, &tiers->host_base));
    }
    HIL_TRY_DONE(hil_region_create(&tiers->device_region, tiers->device_bytes, HIL_IO_ALIGN));
    HIL_TRY_DONE(hil_region_create(&tiers->host_region, tiers->host_bytes, HIL_IO_ALIGN));
    HIL_TRY_DONE(open_drives(tiers, options));
    HIL_TRY_DONE(
        hil_links_create(&tiers->links, &(hil_links_options){.disk = tiers->disk,
                                                             .speeds = options->speeds,
                                                             .device = tiers->device,
                                                             .device_base = tiers->device_base,
                                                             .device_bytes = tiers->device_bytes}));
    if (!tiers->device || tiers->rehearse) goto done;
    HIL_TRY_DONE(hil_pins_create(&tiers->pins, tiers->device));
    hil_links_set_ready(tiers->links, is_pinned, tiers->pins);
done:
    if (status != HIL_OK) hil_tiers_close(tiers);
    return status;
}

static void close_memory(hil_tiers *tiers)
{
    hil_device *device = tiers->device;
    if (device && tiers->device_base)
        (void)device->queue->finish(device); /* its results and failures are not needed */
    hil_population_end(tiers->population);
    hil_pins_destroy(tiers->pins);
    give_arena(tiers, tiers->device_base, tiers->device_bytes);
    give_arena(tiers, tiers->more_base, tiers->more_bytes);
    unmap(tiers->host_base, tiers->host_bytes);
}

void hil_tiers_close(hil_tiers *tiers)
{
    hil_links_destroy(tiers->links);
    hil_disk_destroy(tiers->disk);
    hil_io_destroy(tiers->io);
    hil_region_destroy(tiers->host_region);
    hil_region_destroy(tiers->device_region);
    hil_region_destroy(tiers->more_region);
    if (!tiers->rehearse) close_memory(tiers);
    *tiers = (hil_tiers){0};
}

hil_status hil_tiers_take(hil_tiers *tiers, hil_tier tier, size_t bytes, const char *what,
                          void **memory)
{
    assert(tier == HIL_DEVICE || tier == HIL_HOST);
    bool device = tier == HIL_DEVICE;
    hil_region *region = device ? tiers->device_region : tiers->host_region;
    size_t budget = device ? tiers->device_bytes : tiers->host_bytes, offset;
    char *base = device ? tiers->device_base : tiers->host_base;
    hil_fence after;
    bool found;
    *memory = NULL;
    HIL_TRY(hil_region_take(region, bytes, &offset, &after, &found));
    if (!found && device && tiers->more_region) {
        base = tiers->more_base;
        HIL_TRY(hil_region_take(tiers->more_region, bytes, &offset, &after, &found));
    }
    if (!found) {
        char want[32], all[32], left[32];
        return hil_fail(
            HIL_ERR_BUDGET, "%s memory of %s is too little: %s needs %s and %s are left",
            device ? "device" : "host", hil_text_bytes(all, budget), what,
            hil_text_bytes(want, bytes), hil_text_bytes(left, budget - hil_region_used(region)));
    }
    *memory = base + offset;
    return HIL_OK;
}

hil_status hil_tiers_extend(hil_tiers *tiers, size_t bytes)
{
    assert(!tiers->more_region && !tiers->rehearse);
    char *base;
    hil_region *region;
    HIL_TRY(hil_region_create(&region, bytes, HIL_IO_ALIGN));
    hil_status status = take_arena(tiers, bytes, &base);
    if (status != HIL_OK) {
        hil_region_destroy(region);
        return status;
    }
    tiers->more_region = region;
    tiers->more_base = base;
    tiers->more_bytes = bytes;
    hil_links_extend(tiers->links, base, bytes);
    return HIL_OK;
}

hil_status hil_tiers_pin(hil_tiers *tiers, void *memory, size_t bytes, hil_pin_order order)
{
    if (!tiers->pins || bytes == 0) return HIL_OK;
    uintptr_t offset = (uintptr_t)memory % HIL_IO_ALIGN;
    char *first = (char *)memory - offset;
    size_t whole = hil_align_up(bytes + offset);
    assert(first >= tiers->host_base &&
           first + whole <= tiers->host_base + hil_align_up(tiers->host_bytes));
    return hil_pins_add(tiers->pins, first, whole, order);
}

hil_status hil_tiers_pin_all(hil_tiers *tiers)
{
    return tiers->pins ? hil_pins_pin_all(tiers->pins) : HIL_OK;
}

hil_status hil_tiers_populate(hil_tiers *tiers, int threads)
{
    if (tiers->rehearse) return HIL_OK;
    hil_population_end(tiers->population);
    tiers->population = NULL;
    if (tiers->pins) HIL_TRY(hil_pins_queue(tiers->pins));
    hil_population_task task = {.pins = tiers->pins,
                                .memory = tiers->host_base,
                                .bytes = hil_region_extent(tiers->host_region),
                                .threads = threads};
    return hil_population_begin(&tiers->population, &task);
}
