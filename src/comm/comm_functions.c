/* comm_functions.c - ranks that the program connects: an engine over its functions. */
#include "comm/comm_engine.h"

#include "base/alloc.h"
#include "base/sized.h"

#include <string.h>

_Static_assert((int)HIL_COMM_CHANNELS == (int)HIL_CHANNELS, "the channels, for programs");

static hil_status check(int failed, const char *what)
{
    if (!failed) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "the program cannot %s the other ranks", what);
}

static hil_status gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes)
{
    const hil_comm_functions *f = comm->state;
    return check(f->gather(f->context, (int)channel, slice, whole, bytes), "gather from");
}

static hil_status exchange(hil_comm *comm, hil_channel channel, const void *out, void *in,
                           size_t bytes)
{
    const hil_comm_functions *f = comm->state;
    return check(f->exchange(f->context, (int)channel, out, in, bytes), "exchange with");
}

static void destroy(hil_comm *comm)
{
    hil_free(comm->state);
}

static const hil_comm_engine engine = {"functions", false,    destroy,
                                       gather,      exchange, hil_comm_break};

void hil_comm_functions_defaults_sized(hil_comm_functions *functions, size_t size)
{
    const hil_comm_functions defaults = {.ranks = 1, .local_ranks = 1};
    hil_sized_fill(functions, size, &defaults, sizeof defaults);
}

static hil_status check_functions(const hil_comm_functions *f)
{
    bool valid = f->rank >= 0 && f->rank < f->ranks && f->local_rank >= 0 &&
                 f->local_rank < f->local_ranks && f->local_ranks <= f->ranks;
    if (!valid || !f->gather || !f->exchange)
        return hil_fail(HIL_ERR_USAGE,
                        "rank %d of %d, %d of %d on its machine, needs both functions and numbers "
                        "from 0 on",
                        f->rank, f->ranks, f->local_rank, f->local_ranks);
    return HIL_OK;
}

hil_status hil_comm_open_functions(hil_comm **out, const hil_comm_functions *functions)
{
    hil_comm_functions own, *copy;
    *out = NULL;
    HIL_TRY(HIL_SIZED_TAKE(hil_comm_functions, &own, functions));
    HIL_TRY(check_functions(&own));
    if (own.ranks == 1) return HIL_OK;
    hil_comm *comm;
    HIL_TRY(HIL_ALLOC(1, &copy));
    *copy = own;
    hil_status status = hil_comm_create(&comm);
    if (status != HIL_OK) {
        hil_free(copy);
        return status;
    }
    comm->engine = &engine;
    comm->state = copy;
    comm->rank = own.rank;
    comm->size = own.ranks;
    comm->local_rank = own.local_rank;
    comm->local_size = own.local_ranks;
    comm->has_nccl_id = own.nccl_id != NULL;
    if (own.nccl_id) memcpy(comm->nccl_id, own.nccl_id, sizeof comm->nccl_id);
    status = hil_comm_prepare(comm);
    if (status == HIL_OK)
        *out = comm;
    else
        hil_comm_close(comm);
    return status;
}
