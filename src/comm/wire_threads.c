/* wire_threads.c - devices of threads exchange through a comm, as NCCL's kernels would on GPUs. */
#include "comm/wire_threads.h"

#include "base/alloc.h"
#include "device/device_threads.h"

#include <stdatomic.h>
#include <time.h>

typedef struct threads_wire {
    hil_wire wire; /* first */
    hil_device *device;
    hil_comm *comm;
    atomic_bool abandoned;
} threads_wire;

typedef struct call {
    threads_wire *wire;
    bool exchange;
    const void *from;
    void *to;
    size_t bytes;
} call;

/* Like a GPU's kernel it does not notice a lost rank: it waits until the wire is abandoned. */
static hil_status perform(void *args)
{
    const call *c = args;
    hil_comm *comm = c->wire->comm;
    hil_channel channel = HIL_CHANNEL_GATHER; /* for both: a wire has one order of calls */
    hil_status status = c->exchange ? hil_comm_exchange(comm, channel, c->from, c->to, c->bytes)
                                    : hil_comm_gather(comm, channel, c->from, c->to, c->bytes);
    while (status != HIL_OK && !atomic_load(&c->wire->abandoned))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return status;
}

static hil_status queue(hil_wire *wire, hil_stream stream, call c)
{
    c.wire = (threads_wire *)wire;
    return hil_device_threads_call(c.wire->device, stream, perform, &c, sizeof c);
}

static hil_status gather(hil_wire *wire, hil_stream stream, const void *slice, void *whole,
                         size_t bytes)
{
    return queue(wire, stream, (call){.from = slice, .to = whole, .bytes = bytes});
}

static hil_status exchange(hil_wire *wire, hil_stream stream, const void *out, void *in,
                           size_t bytes)
{
    return queue(wire, stream, (call){.exchange = true, .from = out, .to = in, .bytes = bytes});
}

static hil_status poll_wire(hil_wire *wire, bool *ready)
{
    (void)wire;
    *ready = true;
    return HIL_OK;
}

static void abandon(hil_wire *wire)
{
    atomic_store(&((threads_wire *)wire)->abandoned, true);
}

static void destroy(hil_wire *wire)
{
    hil_free(wire);
}

hil_status hil_wire_threads_open(hil_wire **out, hil_device *device, hil_comm *comm)
{
    static const hil_wire_engine engine = {destroy, gather, exchange, poll_wire, abandon};
    threads_wire *w;
    HIL_TRY(HIL_ALLOC(1, &w));
    w->wire.engine = &engine;
    w->device = device;
    w->comm = comm;
    *out = &w->wire;
    return HIL_OK;
}
