/* device_connect.c - connects the devices of ranks. */
#include "machine/device_connect.h"

#include "base/clock.h"
#include "comm/device_comm_threads.h"
#include "machine/cuda_load.h"
#include "base/note.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define CONNECT_SECONDS 60.0
#define PAUSE 5000000L /* nanoseconds between two polls */
#define ROUNDS 4       /* gathers that are timed */
#define ROUND_BYTES ((size_t)4 << 20)

/* *all: every rank succeeded so far. Otherwise all continue without it, and a note says why. */
static hil_status agree(const hil_device_connection_options *o, hil_status mine, bool *all)
{
    hil_status status = hil_comm_agree(o->comm, HIL_CHANNEL_CONTROL, mine, NULL);
    *all = status == HIL_OK;
    if (*all || hil_comm_check(o->comm) != HIL_OK) return status;
    hil_note(o->observer, "ranks exchange data through host memory: %s", hil_status_message());
    return HIL_OK;
}

static hil_status wait_ready(hil_device_comm *device_comm)
{
    double end = hil_clock_now() + CONNECT_SECONDS;
    bool ready = false;
    while (!ready) {
        HIL_TRY(device_comm->engine->poll(device_comm, &ready));
        if (!ready && hil_clock_now() > end)
            return hil_fail(HIL_ERR_IO, "the GPUs of the ranks are not connected after %.0f s",
                            CONNECT_SECONDS);
        if (!ready) nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
    }
    return HIL_OK;
}

_Static_assert((int)HIL_COMM_NCCL_ID == (int)HIL_DEVICE_COMM_NAME, "a name is NCCL's id");

/* The name by which the GPUs connect: the program's, if it gave one to every rank, else a new one
   of rank 0. */
static hil_status find_name(const hil_device_connection_options *o,
                            const hil_device_comm_maker *maker,
                            unsigned char name[HIL_DEVICE_COMM_NAME], bool *all)
{
    const unsigned char *given = hil_comm_nccl_id(o->comm);
    double everywhere = given != NULL;
    HIL_TRY(hil_comm_least(o->comm, &everywhere, 1));
    if (everywhere > 0) {
        memcpy(name, given, HIL_DEVICE_COMM_NAME);
        return HIL_OK;
    }
    HIL_TRY(agree(o, hil_comm_rank(o->comm) == 0 ? maker->name(name) : HIL_OK, all));
    if (!*all) return HIL_OK;
    return hil_comm_broadcast(o->comm, HIL_CHANNEL_CONTROL, name, HIL_DEVICE_COMM_NAME);
}

static hil_status connect_gpus(hil_device_comm **out, const hil_device_connection_options *o,
                               bool *all)
{
    const hil_device_comm_maker *maker = NULL;
    unsigned char name[HIL_DEVICE_COMM_NAME] = {0};
    HIL_TRY(agree(o, hil_gpu_load_device_comm(o->choice->prefixes, &maker), all));
    if (!*all) return HIL_OK;
    HIL_TRY(find_name(o, maker, name, all));
    if (!*all) return HIL_OK;
    hil_status mine =
        maker->open(out, o->device, name, hil_comm_rank(o->comm), hil_comm_size(o->comm));
    if (mine == HIL_OK) mine = wait_ready(*out);
    if (mine != HIL_OK && *out) (*out)->engine->abandon(*out);
    return agree(o, mine, all);
}

static hil_status connect_all(hil_device_comm **out, const hil_device_connection_options *o,
                              bool *all)
{
    const char *name = o->choice->name;
    if (!name || strncmp(name, "threads", strlen("threads")) != 0) return connect_gpus(out, o, all);
    return agree(o, hil_device_comm_threads_open(out, o->device, o->comm), all);
}

static hil_status gather_once(const hil_device_connection *connection, hil_device *device,
                              char *memory, int rank, hil_event *event)
{
    HIL_TRY(connection->device_comm->engine->gather(connection->device_comm, HIL_STREAM_GATHER,
                                                    memory + (size_t)rank * ROUND_BYTES, memory,
                                                    ROUND_BYTES));
    HIL_TRY(device->events->record(device, HIL_STREAM_GATHER, event));
    return device->events->wait(device, event);
}

/* Does not time the first round, which may still set up connections. */
static hil_status measure(hil_device_connection *connection, const hil_device_connection_options *o)
{
    hil_device *device = o->device;
    size_t ranks = (size_t)hil_comm_size(o->comm);
    void *memory = NULL;
    hil_event *event = NULL;
    double began = 0;
    hil_status status = device->heap->alloc(device, ranks * ROUND_BYTES, &memory);
    if (status == HIL_OK) status = device->events->create(device, &event);
    status = hil_comm_agree(o->comm, HIL_CHANNEL_CONTROL, status, NULL);
    for (int i = 0; i <= ROUNDS && status == HIL_OK; ++i) {
        if (i == 1) began = hil_clock_now();
        status = gather_once(connection, device, memory, hil_comm_rank(o->comm), event);
    }
    double seconds = hil_clock_now() - began;
    connection->speed = (double)((ranks - 1) * ROUND_BYTES * ROUNDS) / fmax(seconds, 1e-9);
    if (event) device->events->destroy(device, event);
    if (memory) device->heap->free(device, memory);
    return hil_comm_agree(o->comm, HIL_CHANNEL_CONTROL, status, NULL);
}

hil_status hil_device_connection_open(hil_device_connection *out,
                                      const hil_device_connection_options *o)
{
    double own = o->device && o->sharers == 1;
    bool all = false;
    *out = (hil_device_connection){0};
    if (hil_comm_size(o->comm) == 1) return HIL_OK;
    HIL_TRY(hil_comm_least(o->comm, &own, 1));
    if (own < 1) return HIL_OK;
    hil_comm_set_activity(o->comm, "connecting the GPUs");
    HIL_TRY(connect_all(&out->device_comm, o, &all));
    if (!all) {
        hil_device_connection_close(out);
        return HIL_OK;
    }
    hil_status mine = hil_device_comm_watch_start(&out->watch, out->device_comm, o->comm);
    HIL_TRY(hil_comm_agree(o->comm, HIL_CHANNEL_CONTROL, mine, NULL));
    return measure(out, o);
}

void hil_device_connection_close(hil_device_connection *connection)
{
    hil_device_comm_watch_stop(connection->watch);
    if (connection->device_comm) connection->device_comm->engine->close(connection->device_comm);
    *connection = (hil_device_connection){0};
}
