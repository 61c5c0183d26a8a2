/* device_comm_threads.c - devices of threads exchange through a comm, as NCCL's kernels would on
 * GPUs. */
#include "comm/device_comm_threads.h"

#include "base/alloc.h"
#include "device/device_threads.h"

#include <stdatomic.h>
#include <time.h>

typedef struct threads_comm {
    hil_device_comm device_comm; /* first */
    hil_device *device;
    hil_comm *comm;
    atomic_bool abandoned;
} threads_comm;

typedef struct call {
    threads_comm *device_comm;
    bool exchange;
    const void *from;
    void *to;
    size_t bytes;
} call;

/* Like a GPU's kernel it does not notice a lost rank: it waits until the device comm is abandoned.
 */
static hil_status perform(void *args)
{
    const call *c = args;
    hil_comm *comm = c->device_comm->comm;
    hil_channel channel = HIL_CHANNEL_GATHER; /* for both: a device comm has one order of calls */
    hil_status status = c->exchange ? hil_comm_exchange(comm, channel, c->from, c->to, c->bytes)
                                    : hil_comm_gather(comm, channel, c->from, c->to, c->bytes);
    while (status != HIL_OK && !atomic_load(&c->device_comm->abandoned))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return status;
}

static hil_status queue(hil_device_comm *device_comm, hil_stream stream, call c)
{
    c.device_comm = (threads_comm *)device_comm;
    return hil_device_threads_call(c.device_comm->device, stream, perform, &c, sizeof c);
}

static hil_status gather(hil_device_comm *device_comm, hil_stream stream, const void *slice,
                         void *whole, size_t bytes)
{
    return queue(device_comm, stream, (call){.from = slice, .to = whole, .bytes = bytes});
}

static hil_status exchange(hil_device_comm *device_comm, hil_stream stream, const void *out,
                           void *in, size_t bytes)
{
    return queue(device_comm, stream,
                 (call){.exchange = true, .from = out, .to = in, .bytes = bytes});
}

static hil_status poll_comm(hil_device_comm *device_comm, bool *ready)
{
    (void)device_comm;
    *ready = true;
    return HIL_OK;
}

static void abandon(hil_device_comm *device_comm)
{
    atomic_store(&((threads_comm *)device_comm)->abandoned, true);
}

static void destroy(hil_device_comm *device_comm)
{
    hil_free(device_comm);
}

hil_status hil_device_comm_threads_open(hil_device_comm **out, hil_device *device, hil_comm *comm)
{
    static const hil_device_comm_engine engine = {destroy, gather, exchange, poll_comm, abandon};
    threads_comm *w;
    HIL_TRY(HIL_ALLOC(1, &w));
    w->device_comm.engine = &engine;
    w->device = device;
    w->comm = comm;
    *out = &w->device_comm;
    return HIL_OK;
}
