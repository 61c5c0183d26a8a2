/* cuda_device.h - the parts of a GPU device, for files compiled by nvcc. */
#ifndef HIL_DEVICE_CUDA_DEVICE_H
#define HIL_DEVICE_CUDA_DEVICE_H

#include "device/cuda.h"

extern "C" {
#include "base/alloc.h"
}

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

/* An error that a kernel found in its data; the first one is kept, in shared host memory. */
typedef struct hil_cuda_fault {
    unsigned set;
    int id;
    long long rows;
} hil_cuda_fault;

/* A library's plans, created once per shape; `free` is called on close. */
typedef struct hil_cuda_plans {
    void *data;
    void (*free)(void *data);
} hil_cuda_plans;

#define HIL_CUDA_WORKSPACE ((size_t)64 << 20)

typedef struct hil_cuda {
    hil_device device; /* first: a hil_device is one of these */
    int index;
    cudaStream_t streams[HIL_STREAMS];
    cudaStream_t stream; /* the compute stream */
    bool adopted;        /* it is the caller's */
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    void *workspace; /* of HIL_CUDA_WORKSPACE bytes, for cuBLASLt */
    hil_cuda_fault *fault;
    hil_cuda_plans matmul, attention;
    cudaEvent_t timer[2];
} hil_cuda;

static inline hil_cuda *hil_cuda_of(const hil_device *device)
{
    return (hil_cuda *)device;
}

/* The stream; makes the GPU current on the calling thread. */
static inline cudaStream_t hil_cuda_stream(const hil_device *device, hil_stream stream)
{
    cudaSetDevice(hil_cuda_of(device)->index);
    return hil_cuda_of(device)->streams[stream];
}

extern const hil_device_heap hil_cuda_heap;
extern const hil_device_events hil_cuda_events;
extern const hil_device_queue hil_cuda_queue;
/* Free bytes by the driver, before a context of this process exists; 0: unknown. */
uint64_t hil_cuda_free_bytes(int domain, int bus, int slot);
hil_status hil_cuda_pin(hil_device *device, void *memory, size_t bytes);
void hil_cuda_unpin(hil_device *device, void *memory, size_t bytes);
/* Pinned memory is registered in pieces that end at multiples of this address; a copy that crosses
   one is split. Small enough that a piece is pinned while a copy waits for it. */
#define HIL_CUDA_PIECE ((uintptr_t)1 << 28)

/* Fails with "cannot `what` on GPU 0: out of memory". */
hil_status hil_cuda_check(const hil_device *device, cudaError_t error, const char *what);
hil_status hil_cublas_check(const hil_device *device, cublasStatus_t status, const char *what);
hil_status hil_cudnn_check(const hil_device *device, cudnnStatus_t status, const char *what);

/* After a launch: whether it was accepted. */
static inline hil_status hil_cuda_launched(const hil_device *device, const char *kernel)
{
    return hil_cuda_check(device, cudaGetLastError(), kernel);
}

#endif
