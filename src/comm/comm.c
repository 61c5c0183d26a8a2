/* comm.c - what ranks do together, on top of the gathers of an engine. */
#include "comm/comm_engine.h"

#include "base/alloc.h"

#include <string.h>

int hil_comm_rank(const hil_comm *comm)
{
    return comm ? comm->rank : 0;
}

int hil_comm_size(const hil_comm *comm)
{
    return comm ? comm->size : 1;
}

int hil_comm_local_rank(const hil_comm *comm)
{
    return comm ? comm->local_rank : 0;
}

int hil_comm_local_size(const hil_comm *comm)
{
    return comm ? comm->local_size : 1;
}

static bool is_alone(const hil_comm *comm)
{
    return hil_comm_size(comm) == 1;
}

hil_status hil_comm_gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                           size_t bytes)
{
    if (!is_alone(comm)) return comm->engine->gather(comm, channel, slice, whole, bytes);
    if (slice != whole) memcpy(whole, slice, bytes);
    return HIL_OK;
}

hil_status hil_comm_exchange(hil_comm *comm, hil_channel channel, const void *out, void *in,
                             size_t bytes)
{
    if (!is_alone(comm)) return comm->engine->exchange(comm, channel, out, in, bytes);
    memcpy(in, out, bytes);
    return HIL_OK;
}
