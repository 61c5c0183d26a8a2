/* test_device_limit.c - a bus that is slower than the device's own: as many times the bytes, the
   same result. */
#include "check.h"

#include "base/memory.h"
#include "device/device_limit.h"
#include "device/device_threads.h"

#include <time.h>

#define BYTES ((size_t)1 << 20)
#define SPEED 1e9 /* of the counting device's bus, in bytes per second */

static size_t moved, closed; /* by the counting device */

static hil_status count_copy(hil_device *device, hil_stream stream, void *to, const void *from,
                             size_t bytes)
{
    (void)device, (void)stream, (void)to, (void)from;
    moved += bytes;
    return HIL_OK;
}

/* Takes the time of what was copied since the last wait. */
static hil_status wait_for_copies(hil_device *device, hil_event *event)
{
    (void)device, (void)event;
    long nanoseconds = (long)((double)moved / SPEED * 1e9);
    nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL);
    moved = 0;
    return HIL_OK;
}

static hil_status alloc(hil_device *device, size_t bytes, void **out)
{
    (void)device;
    return hil_alloc(bytes, 1, out);
}
static void release(hil_device *device, void *memory)
{
    (void)device;
    hil_free(memory);
}
static hil_status pin(hil_device *device, void *memory, size_t bytes)
{
    (void)device, (void)memory, (void)bytes;
    return HIL_OK;
}
static void unpin(hil_device *device, void *memory, size_t bytes)
{
    (void)device, (void)memory, (void)bytes;
}
static hil_status create_event(hil_device *device, hil_event **out)
{
    (void)device;
    *out = NULL;
    return HIL_OK;
}
static void destroy_event(hil_device *device, hil_event *event)
{
    (void)device, (void)event;
}
static hil_status record(hil_device *device, hil_stream stream, hil_event *event)
{
    (void)device, (void)stream, (void)event;
    return HIL_OK;
}
static void close_device(hil_device *device)
{
    (void)device;
    ++closed;
}

static size_t bytes_of_copy(hil_device *d, hil_stream stream, size_t bytes)
{
    char any[1] = {0};
    moved = 0;
    CHECK_OK(d->queue->copy(d, stream, any, any, bytes));
    return moved;
}

/* A bus of 1 GB/s that shall have 0.4: two passes and a half. A wait may take longer, so there may
   be less. */
static void check_counts(void)
{
    static const hil_device_heap heap = {
        .alloc = alloc, .free = release, .pin = pin, .unpin = unpin};
    static const hil_device_events events = {.create = create_event,
                                             .destroy = destroy_event,
                                             .record = record,
                                             .wait = wait_for_copies};
    static const hil_device_queue queue = {.copy = count_copy};
    hil_device d = {.heap = &heap, .events = &events, .queue = &queue, .close = close_device};
    snprintf(d.name, sizeof d.name, "counter");
    CHECK_FAILS(hil_device_limit(&d, 2e10), HIL_ERR_USAGE, "cannot be limited to 20 GB/s");
    CHECK_FAILS(hil_device_limit(&d, 0), HIL_ERR_USAGE, "cannot be limited");
    CHECK(d.queue == &queue);
    CHECK_OK(hil_device_limit(&d, 4e8));
    CHECK_TEXT(d.name, "counter, bus at 0.4 GB/s");
    double passes = (double)bytes_of_copy(&d, HIL_STREAM_IN, BYTES) / (double)BYTES;
    CHECK(passes > 1.2 && passes <= 2.5);
    double back = (double)bytes_of_copy(&d, HIL_STREAM_OUT, BYTES) / (double)BYTES;
    CHECK_NEAR(back, passes, 1e-9);
    CHECK_INT(bytes_of_copy(&d, HIL_STREAM_COMPUTE, BYTES), BYTES);
    CHECK_INT(bytes_of_copy(&d, HIL_STREAM_IN, 4096), 4096);
    d.close(&d);
    CHECK_INT(closed, 1);
}

/* There and back on the device of threads. */
static void check_result(void)
{
    hil_device *d;
    char *device, *host;
    CHECK_OK(hil_device_threads_open(&d));
    CHECK_OK(hil_device_limit(d, 3e7));
    CHECK_OK(d->heap->alloc(d, BYTES, (void **)&device));
    CHECK_OK(hil_memory_map(2 * BYTES, (void **)&host));
    CHECK_OK(d->heap->pin(d, host, 2 * BYTES));
    for (size_t i = 0; i < BYTES; ++i) host[i] = (char)(i * 7 + i / 251);
    hil_event *event;
    CHECK_OK(d->events->create(d, &event));
    CHECK_OK(d->queue->copy(d, HIL_STREAM_IN, device, host, BYTES));
    CHECK_OK(d->events->record(d, HIL_STREAM_IN, event));
    CHECK_OK(d->events->follow(d, HIL_STREAM_OUT, event));
    CHECK_OK(d->queue->copy(d, HIL_STREAM_OUT, host + BYTES, device, BYTES));
    CHECK_OK(d->events->record(d, HIL_STREAM_OUT, event));
    CHECK_OK(d->events->wait(d, event));
    CHECK(memcmp(host, host + BYTES, BYTES) == 0);
    d->events->destroy(d, event);
    d->heap->unpin(d, host, 2 * BYTES);
    hil_memory_unmap(host, 2 * BYTES);
    d->heap->free(d, device);
    d->close(d);
}

int main(void)
{
    check_counts();
    check_result();
    return 0;
}
