/* buffers.c - tensors in one region of the device. */
#include "tier/buffers.h"

#include "base/alloc.h"
#include "base/text.h"

#define ALIGN 64
#define DEVICE_ALIGN 256 /* what kernels read fastest */

struct hil_buffers {
    hil_links *links;
    hil_region *region;
    char *base;
    size_t bytes, budget;
};

hil_status hil_buffers_create(hil_buffers **out, hil_tiers *tiers, size_t bytes)
{
    hil_status status;
    hil_buffers *buffers = NULL;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &buffers));
    buffers->links = tiers->links;
    buffers->bytes = bytes;
    buffers->budget = tiers->device_bytes;
    HIL_TRY_DONE(hil_region_create(&buffers->region, bytes, tiers->device ? DEVICE_ALIGN : ALIGN));
    if (bytes)
        HIL_TRY_DONE(hil_tiers_take(tiers, HIL_DEVICE, bytes, "tensors", (void **)&buffers->base));
    assert((uintptr_t)buffers->base % DEVICE_ALIGN == 0);
    *out = buffers;
    buffers = NULL;
done:
    hil_buffers_destroy(buffers);
    return status;
}

void hil_buffers_destroy(hil_buffers *buffers)
{
    if (!buffers) return;
    assert(!buffers->region || hil_region_used(buffers->region) == 0);
    hil_region_destroy(buffers->region);
    hil_free(buffers);
}

static hil_status no_room(const hil_buffers *buffers, size_t bytes)
{
    char want[32], taken[32], all[32], budget[32], missing[32];
    size_t used = hil_region_used(buffers->region), left = buffers->bytes - used;
    hil_text_bytes(want, bytes);
    hil_text_bytes(taken, used);
    hil_text_bytes(all, buffers->bytes);
    hil_text_bytes(budget, buffers->budget);
    if (bytes <= left)
        return hil_fail(HIL_ERR_BUDGET,
                        "out of device memory: no gap of %s in the %s for tensors, %s of it taken; "
                        "try a larger --device-memory (now %s) or a smaller --micro-batch",
                        want, all, taken, budget);
    return hil_fail(HIL_ERR_BUDGET,
                    "out of device memory: %s missing for a tensor of %s, with %s taken of %s; "
                    "try a larger --device-memory (now %s) or a smaller --micro-batch",
                    hil_text_bytes(missing, bytes - left), want, taken, all, budget);
}

hil_status hil_buffers_take_after(hil_buffers *buffers, size_t bytes, void **out, hil_fence *after)
{
    size_t offset;
    bool found;
    *out = NULL;
    HIL_TRY(hil_region_take(buffers->region, bytes, &offset, after, &found));
    if (!found) return no_room(buffers, bytes);
    *out = buffers->base + offset;
    return HIL_OK;
}

hil_status hil_buffers_take(hil_buffers *buffers, size_t bytes, void **out)
{
    hil_fence after;
    HIL_TRY(hil_buffers_take_after(buffers, bytes, out, &after));
    hil_status status = hil_links_follow(buffers->links, &after, HIL_WAIT_MEMORY);
    if (status == HIL_OK) return HIL_OK;
    hil_buffers_give_after(buffers, *out, &after);
    *out = NULL;
    return status;
}

bool hil_buffers_fits(const hil_buffers *buffers, size_t bytes)
{
    return hil_region_fits(buffers->region, bytes);
}

void hil_buffers_give_after(hil_buffers *buffers, void *memory, const hil_fence *after)
{
    if (memory) hil_region_give(buffers->region, (size_t)((char *)memory - buffers->base), after);
}

void hil_buffers_give(hil_buffers *buffers, void *memory)
{
    hil_buffers_give_after(buffers, memory, NULL);
}

size_t hil_buffers_bytes(const hil_buffers *buffers)
{
    return hil_region_used(buffers->region);
}

size_t hil_buffers_peak(const hil_buffers *buffers)
{
    return hil_region_extent(buffers->region);
}
