/* device_comm_nccl.c - gather and exchange between GPUs over NCCL.

   The communicator is non-blocking: NCCL's calls return at once, and the caller polls until the
   call is queued. So no thread is inside NCCL when a rank is lost, and the communicator can be
   aborted. */
#include "comm/device_comm_nccl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "device/cuda.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(ncclUniqueId) == HIL_DEVICE_COMM_NAME, "a name is what NCCL calls an id");

#define PAUSE 20000      /* nanoseconds between polls */
#define LAST_SECONDS 5.0 /* time limit for closing a communicator */

/* NCCL is loaded at run time: a single GPU works without it. */
#define FUNCTIONS(_)                                                                               \
    _(ncclGetUniqueId)                                                                             \
    _(ncclCommInitRankConfig)                                                                      \
    _(ncclCommFinalize)                                                                            \
    _(ncclCommDestroy)                                                                             \
    _(ncclCommAbort)                                                                               \
    _(ncclCommGetAsyncError)                                                                       \
    _(ncclAllGather)                                                                               \
    _(ncclSend)                                                                                    \
    _(ncclRecv)                                                                                    \
    _(ncclGroupStart)                                                                              \
    _(ncclGroupEnd)                                                                                \
    _(ncclGetErrorString)
#define MEMBER(name) __typeof__(name) *(name);
static struct {
    FUNCTIONS(MEMBER)
} nccl;

typedef struct nccl_comm {
    hil_device_comm device_comm; /* first */
    hil_device *device;
    int ranks;
    pthread_mutex_t lock; /* held around NCCL's calls; guards the next fields */
    ncclComm_t comm;
    bool lost;
} nccl_comm;

static hil_status check(ncclResult_t code, const char *what)
{
    if (code == ncclSuccess) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "NCCL cannot %s: %s", what, nccl.ncclGetErrorString(code));
}

/* The state of the last call. Lock held. */
static ncclResult_t ask(const nccl_comm *w)
{
    ncclResult_t code = ncclSuccess;
    if (w->lost) return ncclSystemError;
    ncclResult_t asked = nccl.ncclCommGetAsyncError(w->comm, &code);
    return asked == ncclSuccess ? code : asked;
}

/* Waits until a call that returned `code` is queued, for `seconds` (0: forever). Lock held on
   entry and return, released in between. */
static ncclResult_t wait_queued(nccl_comm *w, ncclResult_t code, double seconds)
{
    double end = hil_clock_now() + seconds;
    while (code == ncclInProgress && !(seconds > 0 && hil_clock_now() > end)) {
        pthread_mutex_unlock(&w->lock);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
        pthread_mutex_lock(&w->lock);
        code = ask(w);
    }
    return code;
}

static hil_status finish(nccl_comm *w, ncclResult_t code, const char *what)
{
    code = wait_queued(w, code, 0);
    bool lost = w->lost;
    pthread_mutex_unlock(&w->lock);
    if (lost) return hil_fail(HIL_ERR_IO, "the GPUs of the ranks are no longer connected");
    return check(code, what);
}

static hil_status gather(hil_device_comm *device_comm, hil_stream stream, const void *slice,
                         void *whole, size_t bytes)
{
    nccl_comm *w = (nccl_comm *)device_comm;
    cudaStream_t on = hil_cuda_stream_for(w->device, stream);
    pthread_mutex_lock(&w->lock);
    ncclResult_t code = ncclSystemError;
    if (!w->lost) code = nccl.ncclAllGather(slice, whole, bytes, ncclUint8, w->comm, on);
    return finish(w, code, "gather from the ranks");
}

static ncclResult_t exchange_group(const nccl_comm *w, const char *out, char *in, size_t bytes,
                                   cudaStream_t stream)
{
    ncclResult_t code = nccl.ncclGroupStart();
    if (code != ncclSuccess) return code;
    for (int r = 0; r < w->ranks && code == ncclSuccess; ++r) {
        size_t at = (size_t)r * bytes;
        code = nccl.ncclSend(out + at, bytes, ncclUint8, r, w->comm, stream);
        if (code == ncclSuccess)
            code = nccl.ncclRecv(in + at, bytes, ncclUint8, r, w->comm, stream);
    }
    ncclResult_t end = nccl.ncclGroupEnd(); /* also after a failed call */
    return code == ncclSuccess ? end : code;
}

static hil_status exchange(hil_device_comm *device_comm, hil_stream stream, const void *out,
                           void *in, size_t bytes)
{
    nccl_comm *w = (nccl_comm *)device_comm;
    cudaStream_t on = hil_cuda_stream_for(w->device, stream);
    pthread_mutex_lock(&w->lock);
    ncclResult_t code = w->lost ? ncclSystemError : exchange_group(w, out, in, bytes, on);
    return finish(w, code, "exchange between ranks");
}

static hil_status poll_comm(hil_device_comm *device_comm, bool *ready)
{
    nccl_comm *w = (nccl_comm *)device_comm;
    pthread_mutex_lock(&w->lock);
    ncclResult_t code = ask(w);
    pthread_mutex_unlock(&w->lock);
    *ready = code == ncclSuccess;
    return code == ncclInProgress ? HIL_OK : check(code, "connect the GPUs of the ranks");
}

static void abandon(hil_device_comm *device_comm)
{
    nccl_comm *w = (nccl_comm *)device_comm;
    pthread_mutex_lock(&w->lock);
    if (!w->lost) nccl.ncclCommAbort(w->comm);
    w->lost = true;
    pthread_mutex_unlock(&w->lock);
}

static void destroy(hil_device_comm *device_comm)
{
    nccl_comm *w = (nccl_comm *)device_comm;
    pthread_mutex_lock(&w->lock);
    if (w->comm && !w->lost &&
        wait_queued(w, nccl.ncclCommFinalize(w->comm), LAST_SECONDS) == ncclSuccess)
        nccl.ncclCommDestroy(w->comm);
    else if (w->comm && !w->lost)
        nccl.ncclCommAbort(w->comm);
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_destroy(&w->lock);
    hil_free(w);
}

static hil_status make_name(unsigned char name[HIL_DEVICE_COMM_NAME])
{
    ncclUniqueId id;
    HIL_TRY(check(nccl.ncclGetUniqueId(&id), "find a place where ranks meet"));
    memcpy(name, &id, sizeof id);
    return HIL_OK;
}

static hil_status open_comm(hil_device_comm **out, hil_device *device,
                            const unsigned char name[HIL_DEVICE_COMM_NAME], int rank, int ranks)
{
    static const hil_device_comm_engine engine = {destroy, gather, exchange, poll_comm, abandon};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    nccl_comm *w;
    HIL_TRY(HIL_ALLOC(1, &w));
    w->device_comm.engine = &engine;
    w->device = device;
    w->ranks = ranks;
    pthread_mutex_init(&w->lock, NULL);
    memcpy(&id, name, sizeof id);
    config.blocking = 0;
    (void)hil_cuda_stream_for(device, HIL_STREAM_GATHER); /* makes the GPU current on this thread */
    ncclResult_t code = nccl.ncclCommInitRankConfig(&w->comm, ranks, id, rank, &config);
    hil_status status =
        code == ncclInProgress ? HIL_OK : check(code, "connect the GPUs of the ranks");
    if (status == HIL_OK)
        *out = &w->device_comm;
    else
        destroy(&w->device_comm);
    return status;
}

hil_status hil_device_comm_nccl_find(const hil_device_comm_maker **out)
{
    static const hil_device_comm_maker maker = {make_name, open_comm};
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return hil_fail(HIL_ERR_INPUT, "cannot load NCCL: %s", dlerror());
#define FIND(name)                                                                                 \
    *(void **)&nccl.name = dlsym(library, #name);                                                  \
    if (!nccl.name) return hil_fail(HIL_ERR_INPUT, "libnccl.so.2 is too old: it has no " #name);
    FUNCTIONS(FIND)
    *out = &maker;
    return HIL_OK;
}
