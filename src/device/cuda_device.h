/* cuda_device.h - the inside of a GPU's handle, for what is compiled by nvcc. */
#ifndef HIL_DEVICE_CUDA_DEVICE_H
#define HIL_DEVICE_CUDA_DEVICE_H

#include "device/cuda.h"

extern "C" {
#include "base/alloc.h"
}

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

/* What a kernel found wrong in its data: the first one to say so is kept, in host memory that the
   GPU writes to. */
typedef struct hil_cuda_fault {
    unsigned set;
    int id;
    long long rows;
} hil_cuda_fault;

/* Plans of a library, made once per shape; the owner's `free` is called on close. */
typedef struct hil_cuda_plans {
    void *data;
    void (*free)(void *data);
} hil_cuda_plans;

#define HIL_CUDA_WORKSPACE ((size_t)64 << 20)

struct hil_device {
    int index;
    cudaDeviceProp about;
    cudaStream_t stream;
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    void *workspace; /* of HIL_CUDA_WORKSPACE bytes, for cuBLASLt */
    hil_cuda_fault *fault;
    hil_cuda_plans matmul, attention;
    cudaEvent_t timer[2];
};

/* `what` was being done: "cannot `what` on GPU 0: out of memory". */
hil_status hil_cuda_check(const hil_device *device, cudaError_t error, const char *what);
hil_status hil_cublas_check(const hil_device *device, cublasStatus_t status, const char *what);
hil_status hil_cudnn_check(const hil_device *device, cudnnStatus_t status, const char *what);

/* After a launch: whether it was accepted. */
static inline hil_status hil_cuda_launched(const hil_device *device, const char *kernel)
{
    return hil_cuda_check(device, cudaGetLastError(), kernel);
}

#endif
