/* NCCL as the program loads it, with one rank: it connects, gathers and exchanges on the streams of
   a GPU, in order, and closes, also after it was abandoned. Several ranks need as many GPUs. */
#include "check.h"
#include "machine/cuda_load.h"
#include "machine/devices.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 100003, ROUNDS = 10 };

static hil_device *device;

static hil_device_comm *connect_alone(const hil_device_comm_maker *maker)
{
    unsigned char name[HIL_DEVICE_COMM_NAME];
    hil_device_comm *device_comm;
    bool ready = false;
    CHECK_OK(maker->name(name));
    CHECK_OK(maker->open(&device_comm, device, name, 0, 1));
    for (int i = 0; i < 60000 && !ready; ++i) {
        CHECK_OK(device_comm->engine->poll(device_comm, &ready));
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    CHECK(ready);
    return device_comm;
}

/* Copies numbers in, gathers on one stream, exchanges on another, and copies them out. */
static void check_moves(hil_device_comm *device_comm)
{
    size_t bytes = COUNT * sizeof(uint32_t);
    uint32_t *host;
    char *memory;
    hil_event *gathered, *exchanged;
    CHECK_OK(device->heap->share(device, 2 * bytes, (void **)&host));
    CHECK_OK(device->heap->alloc(device, 3 * bytes, (void **)&memory));
    CHECK_OK(device->events->create(device, &gathered));
    CHECK_OK(device->events->create(device, &exchanged));
    for (uint32_t round = 1; round <= ROUNDS; ++round) {
        for (uint32_t i = 0; i < COUNT; ++i) host[i] = i * 2654435761u + round;
        CHECK_OK(device->queue->copy(device, HIL_STREAM_GATHER, memory, host, bytes));
        CHECK_OK(device_comm->engine->gather(device_comm, HIL_STREAM_GATHER, memory, memory + bytes,
                                             bytes));
        CHECK_OK(device->events->record(device, HIL_STREAM_GATHER, gathered));
        CHECK_OK(device->events->follow(device, HIL_STREAM_REDUCE, gathered));
        CHECK_OK(device_comm->engine->exchange(device_comm, HIL_STREAM_REDUCE, memory + bytes,
                                               memory + 2 * bytes, bytes));
        CHECK_OK(device->queue->copy(device, HIL_STREAM_REDUCE, host + COUNT, memory + 2 * bytes,
                                     bytes));
        CHECK_OK(device->events->record(device, HIL_STREAM_REDUCE, exchanged));
        CHECK_OK(device->events->wait(device, exchanged));
        CHECK(memcmp(host, host + COUNT, bytes) == 0);
    }
    device->events->destroy(device, gathered);
    device->events->destroy(device, exchanged);
    device->heap->free(device, memory);
    device->heap->unshare(device, host);
}

int main(void)
{
    const char *prefixes = getenv("VIRTUAL_ENV");
    const hil_device_comm_maker *maker;
    hil_device_choice choice = {.name = "cuda", .prefixes = prefixes};
    if (hil_devices_open(&choice, NULL, NULL, &device) != HIL_OK ||
        hil_gpu_load_device_comm(prefixes, &maker) != HIL_OK) {
        printf("skipped: %s\n", hil_status_message());
        return CHECK_SKIP;
    }
    hil_device_comm *device_comm = connect_alone(maker);
    check_moves(device_comm);
    device_comm->engine->close(device_comm);
    device_comm = connect_alone(maker);
    check_moves(device_comm);
    device_comm->engine->abandon(device_comm);
    CHECK_FAILS(device_comm->engine->gather(device_comm, HIL_STREAM_GATHER, NULL, NULL, 0),
                HIL_ERR_IO, "no longer connected");
    device_comm->engine->close(device_comm);
    hil_devices_close(device);
    return 0;
}
