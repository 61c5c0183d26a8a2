/* device_cuda.cu - opening and closing a GPU, memory, copies, and its errors in our words. */
#include "device/cuda_device.h"

#include <string.h>

static hil_status fail(const hil_device *device, hil_status code, const char *what, const char *why)
{
    return hil_fail(code, "cannot %s on GPU %d: %s", what, device->index, why);
}

hil_status hil_cuda_check(const hil_device *device, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return HIL_OK;
    hil_status code = error == cudaErrorMemoryAllocation ? HIL_ERR_MEMORY : HIL_ERR_IO;
    return fail(device, code, what, cudaGetErrorString(error));
}

hil_status hil_cublas_check(const hil_device *device, cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS) return HIL_OK;
    return fail(device, HIL_ERR_IO, what, cublasLtGetStatusString(status));
}

hil_status hil_cudnn_check(const hil_device *device, cudnnStatus_t status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS) return HIL_OK;
    return fail(device, HIL_ERR_IO, what, cudnnGetErrorString(status));
}

int hil_cuda_count(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) return 0;
    return count;
}

static hil_status open_parts(hil_device *d)
{
    HIL_TRY(hil_cuda_check(d, cudaSetDevice(d->index), "start"));
    HIL_TRY(hil_cuda_check(d, cudaGetDeviceProperties(&d->about, d->index), "ask for properties"));
    HIL_TRY(hil_cuda_check(d, cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking),
                           "create a stream"));
    HIL_TRY(hil_cuda_check(d, cudaEventCreate(&d->timer[0]), "create an event"));
    HIL_TRY(hil_cuda_check(d, cudaEventCreate(&d->timer[1]), "create an event"));
    HIL_TRY(hil_cuda_check(d, cudaMalloc(&d->workspace, HIL_CUDA_WORKSPACE), "allocate"));
    HIL_TRY(hil_cuda_check(d, cudaMallocHost((void **)&d->fault, sizeof *d->fault), "pin memory"));
    memset(d->fault, 0, sizeof *d->fault);
    HIL_TRY(hil_cublas_check(d, cublasLtCreate(&d->blas), "start cuBLASLt"));
    HIL_TRY(hil_cudnn_check(d, cudnnCreate(&d->dnn), "start cuDNN"));
    return hil_cudnn_check(d, cudnnSetStream(d->dnn, d->stream), "start cuDNN");
}

hil_status hil_cuda_open(hil_device **out, int index)
{
    *out = NULL;
    int count = hil_cuda_count();
    if (index < 0 || index >= count)
        return hil_fail(HIL_ERR_USAGE, "there is no GPU %d: the driver shows %d", index, count);
    hil_device *device;
    HIL_TRY(HIL_ALLOC(1, &device));
    device->index = index;
    hil_status status = open_parts(device);
    if (status != HIL_OK)
        hil_cuda_close(device);
    else
        *out = device;
    return status;
}

void hil_cuda_close(hil_device *device)
{
    if (!device) return;
    if (device->stream) cudaStreamSynchronize(device->stream);
    if (device->matmul.free) device->matmul.free(device->matmul.data);
    if (device->attention.free) device->attention.free(device->attention.data);
    if (device->dnn) cudnnDestroy(device->dnn);
    if (device->blas) cublasLtDestroy(device->blas);
    cudaFreeHost(device->fault);
    cudaFree(device->workspace);
    for (int i = 0; i < 2; ++i)
        if (device->timer[i]) cudaEventDestroy(device->timer[i]);
    if (device->stream) cudaStreamDestroy(device->stream);
    hil_free(device);
}

const char *hil_cuda_name(const hil_device *device)
{
    return device->about.name;
}

hil_status hil_cuda_wait(hil_device *device)
{
    HIL_TRY(hil_cuda_check(device, cudaStreamSynchronize(device->stream), "finish the work"));
    hil_cuda_fault fault = *device->fault;
    if (!fault.set) return HIL_OK;
    memset(device->fault, 0, sizeof *device->fault);
    return hil_fail(HIL_ERR_INPUT, "id %d is outside the table of %lld rows", fault.id, fault.rows);
}

hil_status hil_cuda_alloc(hil_device *device, size_t bytes, void **out)
{
    return hil_cuda_check(device, cudaMalloc(out, bytes ? bytes : 1), "allocate");
}

void hil_cuda_free(hil_device *device, void *memory)
{
    (void)device;
    cudaFree(memory);
}

static hil_status copy(hil_device *device, void *to, const void *from, size_t bytes)
{
    return hil_cuda_check(
        device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device->stream), "copy");
}

hil_status hil_cuda_copy_in(hil_device *device, void *to, const void *host, size_t bytes)
{
    return copy(device, to, host, bytes);
}

hil_status hil_cuda_copy_out(hil_device *device, void *host, const void *from, size_t bytes)
{
    return copy(device, host, from, bytes);
}

hil_status hil_cuda_copy(hil_device *device, void *to, const void *from, size_t bytes)
{
    return copy(device, to, from, bytes);
}

hil_status hil_cuda_fill(hil_device *device, void *to, int byte, size_t bytes)
{
    return hil_cuda_check(device, cudaMemsetAsync(to, byte, bytes, device->stream), "fill memory");
}

hil_status hil_cuda_timer_begin(hil_device *device)
{
    return hil_cuda_check(device, cudaEventRecord(device->timer[0], device->stream), "time");
}

hil_status hil_cuda_timer_end(hil_device *device, double *seconds)
{
    float milliseconds = 0;
    HIL_TRY(hil_cuda_check(device, cudaEventRecord(device->timer[1], device->stream), "time"));
    HIL_TRY(hil_cuda_check(device, cudaEventSynchronize(device->timer[1]), "finish the work"));
    HIL_TRY(hil_cuda_check(
        device, cudaEventElapsedTime(&milliseconds, device->timer[0], device->timer[1]), "time"));
    *seconds = milliseconds * 1e-3;
    return HIL_OK;
}
