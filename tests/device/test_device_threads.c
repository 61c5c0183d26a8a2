/* test_device_threads.c - the device of threads: order of streams, events, and the calls it
   refuses. */
#include "check.h"

#include "base/alloc.h"
#include "base/memory.h"
#include "device/device_threads.h"

#include <string.h>

#define BYTES ((size_t)1 << 20)

typedef struct appending {
    uint64_t *list; /* [0]: the number of entries */
    uint64_t what;
    char filler[4000];
} appending;

static hil_status append(void *args)
{
    appending *a = args;
    CHECK((uintptr_t)args % 64 == 0);
    a->list[++a->list[0]] = a->what;
    return HIL_OK;
}

static hil_status refuse(void *args)
{
    return hil_fail(HIL_ERR_INPUT, "number %d is wrong", *(int *)args);
}

/* Queues more than a stream holds, on three streams that append to one list in turn. */
static void check_order(hil_device *d)
{
    hil_stream streams[] = {HIL_STREAM_COMPUTE, HIL_STREAM_IN, HIL_STREAM_UPDATE};
    uint64_t *list;
    hil_event *event;
    CHECK_OK(d->heap->share(d, BYTES, (void **)&list));
    CHECK_OK(d->events->create(d, &event));
    CHECK_OK(d->events->wait(d, event)); /* never recorded */
    for (uint64_t i = 0; i < 1200; ++i) {
        hil_stream stream = streams[i % 7 % 3];
        appending a = {.list = list, .what = i};
        if (i) CHECK_OK(d->events->follow(d, stream, event));
        CHECK_OK(hil_device_threads_call(d, stream, append, &a, sizeof a - i));
        CHECK_OK(d->events->record(d, stream, event)); /* the next stream waits for it at once */
    }
    CHECK_OK(d->events->wait(d, event));
    CHECK(list[0] == 1200);
    for (uint64_t i = 0; i < 1200; ++i) CHECK(list[i + 1] == i);
    d->events->destroy(d, event);
    d->heap->unshare(d, list);
}

static void check_copies(hil_device *d)
{
    char *device, *host, small[64];
    CHECK_OK(d->heap->alloc(d, BYTES, (void **)&device));
    CHECK_OK(hil_memory_map(BYTES, (void **)&host));
    for (size_t i = 0; i < BYTES; ++i) host[i] = (char)(i * 7 + i / 251);
    CHECK(d->queue->copy(d, HIL_STREAM_IN, device, host, BYTES) == HIL_ERR_USAGE);
    CHECK(d->queue->copy(d, HIL_STREAM_IN, host, host + 99, 9) == HIL_ERR_USAGE);
    CHECK(d->queue->zero(d, HIL_STREAM_IN, host, 9) == HIL_ERR_USAGE);
    CHECK(d->heap->pin(d, host + 1, BYTES) == HIL_ERR_USAGE);
    CHECK_OK(d->heap->pin(d, host, BYTES));
    CHECK(d->heap->pin(d, host + 4096, 4096) == HIL_ERR_USAGE);
    CHECK_OK(d->queue->copy(d, HIL_STREAM_COMPUTE, device, host, BYTES));
    CHECK_OK(d->queue->zero(d, HIL_STREAM_COMPUTE, device + 100, 100));
    CHECK_OK(d->queue->copy(d, HIL_STREAM_COMPUTE, device + 150, device + BYTES - 100, 100));
    CHECK_OK(d->queue->copy(d, HIL_STREAM_COMPUTE, small, device + 120, sizeof small));
    CHECK_OK(d->queue->finish(d));
    for (size_t i = 0; i < sizeof small; ++i)
        CHECK(small[i] == (i < 30 ? 0 : host[BYTES - 100 + i - 30]));
    d->heap->unpin(d, host, BYTES);
    CHECK(d->queue->copy(d, HIL_STREAM_IN, device, host, BYTES) == HIL_ERR_USAGE);
    d->heap->free(d, device);
    hil_memory_unmap(host, BYTES);
}

/* The first failure is kept; later work is not executed. */
static void check_failure(hil_device *d)
{
    uint64_t *list;
    CHECK_OK(d->heap->share(d, 4096, (void **)&list));
    appending a = {.list = list};
    int numbers[] = {7, 8};
    CHECK_OK(hil_device_threads_call(d, HIL_STREAM_COMPUTE, append, &a, sizeof a));
    CHECK_OK(hil_device_threads_call(d, HIL_STREAM_COMPUTE, refuse, &numbers[0], sizeof(int)));
    CHECK_OK(hil_device_threads_call(d, HIL_STREAM_COMPUTE, refuse, &numbers[1], sizeof(int)));
    CHECK_OK(hil_device_threads_call(d, HIL_STREAM_COMPUTE, append, &a, sizeof a));
    CHECK(d->queue->finish(d) == HIL_ERR_INPUT);
    CHECK(strcmp(hil_status_message(), "number 7 is wrong") == 0);
    CHECK(d->queue->finish(d) == HIL_ERR_INPUT);
    CHECK(list[0] == 1);
    d->heap->unshare(d, list);
}

int main(void)
{
    for (int slow = 0; slow < 2; ++slow) {
        hil_device *d;
        CHECK_OK(hil_device_threads_open(&d));
        if (slow) hil_device_threads_delay(d, 5, 200);
        check_order(d);
        check_copies(d);
        check_failure(d);
        d->close(d);
    }
    return 0;
}
