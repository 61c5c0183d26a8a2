/* device_limit.c - repeats copies, so that a bus is as busy as a slower one would be. */
#include "device/device_limit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>

#define TRIAL_BYTES ((size_t)64 << 20)
#define TRIALS 4
#define SHORT ((size_t)64 << 10) /* bytes of the longest copy that is not repeated */

typedef struct limit {
    hil_device_queue queue;       /* the device's, with another copy */
    const hil_device_queue *full; /* the device's own */
    void (*close)(hil_device *device);
    double passes; /* over the bytes of a copy: at least 1 */
} limit;

static const char label[] = "limit of the bus";

static limit *limit_of(const hil_device *device)
{
    return (limit *)(uintptr_t)hil_device_attached(device, label);
}

static hil_status copy(hil_device *device, hil_stream stream, void *to, const void *from,
                       size_t bytes)
{
    const limit *l = limit_of(device);
    double left = stream == HIL_STREAM_COMPUTE || bytes <= SHORT ? 1 : l->passes;
    for (; left >= 1; left -= 1) HIL_TRY(l->full->copy(device, stream, to, from, bytes));
    size_t part = (size_t)(left * (double)bytes);
    return part ? l->full->copy(device, stream, to, from, part) : HIL_OK;
}

static void close_limited(hil_device *device)
{
    limit *l = limit_of(device);
    l->close(device);
    hil_free(l);
}

/* The shortest of several copies to the device. */
static hil_status time_copies(hil_device *device, void *to, const void *from, double *seconds)
{
    hil_event *event;
    hil_status status = HIL_OK;
    HIL_TRY(device->events->create(device, &event));
    for (int i = 0; i < TRIALS && status == HIL_OK; ++i) {
        double start = hil_clock_now();
        status = device->queue->copy(device, HIL_STREAM_IN, to, from, TRIAL_BYTES);
        if (status == HIL_OK) status = device->events->record(device, HIL_STREAM_IN, event);
        if (status == HIL_OK) status = device->events->wait(device, event);
        double taken = hil_clock_now() - start;
        if (i == 0 || taken < *seconds) *seconds = taken;
    }
    device->events->destroy(device, event);
    return status;
}

static hil_status measure(hil_device *device, double *bytes_per_second)
{
    hil_status status;
    void *memory = NULL, *host = NULL;
    bool pinned = false;
    double seconds = 0;
    HIL_TRY_DONE(device->heap->alloc(device, TRIAL_BYTES, &memory));
    HIL_TRY_DONE(hil_memory_map(TRIAL_BYTES, &host));
    HIL_TRY_DONE(device->heap->pin(device, host, TRIAL_BYTES));
    pinned = true;
    HIL_TRY_DONE(time_copies(device, memory, host, &seconds));
    *bytes_per_second = (double)TRIAL_BYTES / seconds;
done:
    if (pinned) device->heap->unpin(device, host, TRIAL_BYTES);
    if (host) hil_memory_unmap(host, TRIAL_BYTES);
    if (memory) device->heap->free(device, memory);
    return status;
}

hil_status hil_device_limit(hil_device *device, double bytes_per_second)
{
    double full = 0;
    limit *l = NULL;
    HIL_TRY(measure(device, &full));
    if (!(bytes_per_second > 0) || bytes_per_second > full)
        return hil_fail(HIL_ERR_USAGE,
                        "the bus of %s moves %.1f GB/s: it cannot be limited to %.3g GB/s",
                        device->name, full * 1e-9, bytes_per_second * 1e-9);
    HIL_TRY(HIL_ALLOC(1, &l));
    *l = (limit){.queue = *device->queue,
                 .full = device->queue,
                 .close = device->close,
                 .passes = full / bytes_per_second};
    l->queue.copy = copy;
    hil_device_attach(device, label, l);
    device->queue = &l->queue;
    device->close = close_limited;
    size_t used = strlen(device->name);
    snprintf(device->name + used, sizeof device->name - used, ", bus at %.3g GB/s",
             bytes_per_second * 1e-9);
    return HIL_OK;
}
