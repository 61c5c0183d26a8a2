/* pin_cuda.cu - pins host memory. Linux clears the pages and CUDA locks them: both take one thread
   seconds for each ten gigabytes, so several threads do it. */
#include "device/cuda_device.h"

extern "C" {
#include "base/memory.h"
}

#include <pthread.h>
#include <unistd.h>

#define PIN_THREADS 16

typedef struct pinning {
    hil_device *device;
    char *memory;
    size_t bytes;
    pthread_mutex_t lock;
    size_t next;        /* bytes that threads have taken so far */
    cudaError_t failed; /* the first failure */
} pinning;

/* The next piece: up to the next multiple of HIL_CUDA_PIECE. */
static size_t take(pinning *p, char **piece)
{
    pthread_mutex_lock(&p->lock);
    char *at = p->memory + p->next;
    size_t bytes = HIL_CUDA_PIECE - (uintptr_t)at % HIL_CUDA_PIECE, left = p->bytes - p->next;
    if (bytes > left) bytes = left;
    if (p->failed != cudaSuccess) bytes = 0;
    p->next += bytes;
    pthread_mutex_unlock(&p->lock);
    *piece = at;
    return bytes;
}

/* Faults in the pages before they are locked, as huge pages if the system has them. Others may
   write them meanwhile, so a zero is exchanged for a zero; a page with another byte is there. */
static void touch(char *piece, size_t bytes)
{
    madvise(piece, bytes, MADV_HUGEPAGE);
    if (madvise(piece, bytes, MADV_POPULATE_WRITE) == 0) return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page) {
        char zero = 0;
        __atomic_compare_exchange_n(piece + at, &zero, 0, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    }
}

static void *pin_pieces(void *context)
{
    pinning *p = (pinning *)context;
    char *piece;
    cudaError_t error = cudaSetDevice(hil_cuda_of(p->device)->index);
    for (size_t bytes; error == cudaSuccess && (bytes = take(p, &piece)) > 0;) {
        touch(piece, bytes);
        error = cudaHostRegister(piece, bytes, cudaHostRegisterDefault);
    }
    if (error == cudaSuccess) return NULL;
    pthread_mutex_lock(&p->lock);
    if (p->failed == cudaSuccess) p->failed = error;
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

hil_status hil_cuda_pin(hil_device *device, void *memory, size_t bytes)
{
    pinning p = {.device = device, .memory = (char *)memory, .bytes = bytes};
    pthread_mutex_init(&p.lock, NULL);
    pthread_t thread[PIN_THREADS];
    size_t most = (bytes - 1) / HIL_CUDA_PIECE, started = 0;
    while (started < most && started < PIN_THREADS &&
           pthread_create(&thread[started], NULL, pin_pieces, &p) == 0)
        ++started;
    pin_pieces(&p);
    for (size_t i = 0; i < started; ++i) pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&p.lock);
    if (p.failed == cudaSuccess) return HIL_OK;
    cudaGetLastError();
    hil_cuda_unpin(device, memory, bytes);
    return hil_cuda_check(device, p.failed, "pin memory for copies");
}

void hil_cuda_unpin(hil_device *device, void *memory, size_t bytes)
{
    cudaSetDevice(hil_cuda_of(device)->index);
    for (size_t at = 0, part; at < bytes; at += part) {
        char *piece = (char *)memory + at;
        part = HIL_CUDA_PIECE - (uintptr_t)piece % HIL_CUDA_PIECE;
        if (part > bytes - at) part = bytes - at;
        cudaHostUnregister(piece);
    }
    cudaGetLastError();
}
