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

/* Allocates the device's arena; plain memory if the CPU is the device. */
static hil_status take_arena(hil_tiers *tiers)
{
    hil_device *device = tiers->device;
    if (!device) return map("device", tiers->device_bytes, &tiers->device_base);
    hil_status status =
        device->heap->alloc(device, tiers->device_bytes, (void **)&tiers->device_base);
    if (status != HIL_ERR_MEMORY) return status;
    char text[32], free[32];
    return hil_fail(HIL_ERR_MEMORY,
                    "out of memory: the plan takes %s of %s, which had %s free at the start: give "
                    "less --device-memory, or end what else uses it",
                    hil_text_bytes(text, tiers->device_bytes), device->name,
                    hil_text_bytes(free, device->available));
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
        HIL_TRY_DONE(take_arena(tiers));
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
done:
    if (status != HIL_OK) hil_tiers_close(tiers);
    return status;
}

static void close_memory(hil_tiers *tiers)
{
    hil_device *device = tiers->device;
    if (device && tiers->device_base) {
        (void)device->queue->finish(device); /* its results and failures are not needed */
        for (size_t i = 0; i < tiers->pinned; ++i)
            device->heap->unpin(device, tiers->pins[i].memory, tiers->pins[i].bytes);
        device->heap->free(device, tiers->device_base);
    } else {
        unmap(tiers->device_base, tiers->device_bytes);
    }
    hil_population_end(tiers->population);
    unmap(tiers->host_base, tiers->host_bytes);
}

void hil_tiers_close(hil_tiers *tiers)
{
    hil_links_destroy(tiers->links);
    hil_disk_destroy(tiers->disk);
    hil_io_destroy(tiers->io);
    hil_region_destroy(tiers->host_region);
    hil_region_destroy(tiers->device_region);
    if (!tiers->rehearse) close_memory(tiers);
    hil_free(tiers->pins);
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

hil_status hil_tiers_populate(hil_tiers *tiers, int threads)
{
    size_t taken = hil_region_extent(tiers->host_region);
    if (tiers->rehearse) return HIL_OK;
    hil_population_end(tiers->population);
    return hil_population_begin(&tiers->population, tiers->host_base, taken, threads);
}

hil_status hil_tiers_pin(hil_tiers *tiers, void *memory, size_t bytes)
{
    if (!tiers->device || tiers->rehearse || bytes == 0) return HIL_OK;
    uintptr_t offset = (uintptr_t)memory % HIL_IO_ALIGN;
    hil_pin pin = {.memory = (char *)memory - offset, .bytes = hil_align_up(bytes + offset)};
    assert(pin.memory >= tiers->host_base &&
           pin.memory + pin.bytes <= tiers->host_base + hil_align_up(tiers->host_bytes));
    for (size_t i = 0; i < tiers->pinned; ++i) {
        const hil_pin *old = &tiers->pins[i];
        if (pin.memory >= old->memory && pin.memory + pin.bytes <= old->memory + old->bytes)
            return HIL_OK;
    }
    HIL_TRY(HIL_GROW(&tiers->pins, &tiers->pin_capacity, tiers->pin_count + 1));
    tiers->pins[tiers->pin_count++] = pin;
    return HIL_OK;
}

static int by_memory(const void *a, const void *b)
{
    const hil_pin *x = a, *y = b;
    return x->memory < y->memory ? -1 : x->memory > y->memory;
}

static hil_status pin_one(hil_device *device, const hil_pin *pin)
{
    char text[32];
    hil_status status = device->heap->pin(device, pin->memory, pin->bytes);
    if (status != HIL_ERR_MEMORY) return status;
    return hil_fail(HIL_ERR_MEMORY,
                    "out of memory: cannot pin %s for copies to and from %s: give less "
                    "--host-memory, or raise the limits on this process (ulimit -l)",
                    hil_text_bytes(text, pin->bytes), device->name);
}

hil_status hil_tiers_pin_all(hil_tiers *tiers)
{
    if (tiers->pinned == tiers->pin_count) return HIL_OK;
    hil_pin *named = tiers->pins + tiers->pinned;
    size_t count = tiers->pin_count - tiers->pinned, merged = 0;
    qsort(named, count, sizeof *named, by_memory);
    for (size_t i = 1; i < count; ++i) {
        char *end = named[merged].memory + named[merged].bytes;
        if (named[i].memory > end)
            named[++merged] = named[i];
        else if (named[i].memory + named[i].bytes > end)
            named[merged].bytes += (size_t)(named[i].memory + named[i].bytes - end);
    }
    tiers->pin_count = tiers->pinned + merged + 1;
    for (; tiers->pinned < tiers->pin_count; ++tiers->pinned) {
        HIL_TRY(pin_one(tiers->device, &tiers->pins[tiers->pinned]));
    }
    return HIL_OK;
}
