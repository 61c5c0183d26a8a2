/* comm_nccl.c - gathers and exchanges between GPUs, by NCCL. */
#include "comm/comm_nccl.h"

#include "base/alloc.h"

#include <nccl.h>

struct hil_nccl {
    ncclComm_t ranks;
    int size;
};

static hil_status check(ncclResult_t code, const char *what)
{
    if (code == ncclSuccess || code == ncclInProgress) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "NCCL cannot %s: %s", what, ncclGetErrorString(code));
}

hil_status hil_nccl_create(hil_nccl **out, hil_comm *comm)
{
    hil_nccl *nccl = NULL;
    ncclUniqueId id = {{0}};
    hil_status mine = HIL_ALLOC(1, &nccl), status;
    if (mine == HIL_OK && hil_comm_rank(comm) == 0)
        mine = check(ncclGetUniqueId(&id), "find a place to meet");
    HIL_TRY_DONE(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, mine, NULL));
    HIL_TRY_DONE(hil_comm_broadcast(comm, HIL_CHANNEL_CONTROL, &id, sizeof id));
    nccl->size = hil_comm_size(comm);
    mine = check(ncclCommInitRank(&nccl->ranks, nccl->size, id, hil_comm_rank(comm)),
                 "connect the GPUs");
    HIL_TRY_DONE(hil_comm_agree(comm, HIL_CHANNEL_CONTROL, mine, NULL));
    *out = nccl;
    return HIL_OK;
done:
    hil_nccl_destroy(nccl, HIL_NCCL_LOST);
    return status;
}

void hil_nccl_destroy(hil_nccl *nccl, hil_nccl_end end)
{
    if (!nccl) return;
    if (nccl->ranks && end == HIL_NCCL_DONE)
        ncclCommDestroy(nccl->ranks);
    else if (nccl->ranks)
        ncclCommAbort(nccl->ranks);
    hil_free(nccl);
}

hil_status hil_nccl_gather(hil_nccl *nccl, const void *slice, void *whole, size_t bytes,
                           void *stream)
{
    return check(ncclAllGather(slice, whole, bytes, ncclUint8, nccl->ranks, stream),
                 "gather from the ranks");
}

hil_status hil_nccl_exchange(hil_nccl *nccl, const void *out, void *in, size_t bytes, void *stream)
{
    ncclResult_t code = ncclGroupStart(), end;
    for (int rank = 0; code == ncclSuccess && rank < nccl->size; ++rank) {
        const unsigned char *to = (const unsigned char *)out + (size_t)rank * bytes;
        unsigned char *from = (unsigned char *)in + (size_t)rank * bytes;
        code = ncclSend(to, bytes, ncclUint8, rank, nccl->ranks, stream);
        if (code == ncclSuccess) code = ncclRecv(from, bytes, ncclUint8, rank, nccl->ranks, stream);
    }
    end = ncclGroupEnd(); /* also after a failure: a group that was begun */
    return check(code == ncclSuccess ? end : code, "exchange between ranks");
}

hil_status hil_nccl_check(hil_nccl *nccl)
{
    ncclResult_t code = ncclSuccess;
    ncclResult_t asked = ncclCommGetAsyncError(nccl->ranks, &code);
    return check(asked == ncclSuccess ? code : asked, "move data between ranks");
}
