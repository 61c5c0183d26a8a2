/* device_cuda.cu - opens and closes a GPU, and translates its errors. */
#include "device/cuda_device.h"

#include <stdio.h>
#include <string.h>

static hil_status fail(const hil_device *device, hil_status code, const char *what, const char *why)
{
    return hil_fail(code, "cannot %s on GPU %d: %s", what, hil_cuda_of(device)->index, why);
}

hil_status hil_cuda_check(const hil_device *device, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return HIL_OK;
    (void)cudaGetLastError(); /* reported here: clear it for the next launch */
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

static __global__ void nothing()
{
}

static hil_status check_age(const hil_cuda *d, const cudaDeviceProp *about)
{
    cudaFuncAttributes attributes;
    cudaError_t error = cudaFuncGetAttributes(&attributes, nothing);
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
        return hil_fail(HIL_ERR_USAGE,
                        "GPU %d (%s) has compute capability %d.%d, which this hilbert was not "
                        "built for; build it with CUDAARCHS=%d%d, or use --device cpu",
                        d->index, about->name, about->major, about->minor, about->major,
                        about->minor);
    return hil_cuda_check(&d->device, error, "load a kernel");
}

static hil_status open_streams(hil_cuda *d)
{
    int least, most; /* copies and updates have priority over compute: they are short */
    HIL_TRY(hil_cuda_check(&d->device, cudaDeviceGetStreamPriorityRange(&least, &most),
                           "ask for priorities"));
    for (int i = 0; i < HIL_STREAMS; ++i) {
        int priority = i == HIL_STREAM_COMPUTE ? least : most;
        cudaError_t error =
            cudaStreamCreateWithPriority(&d->streams[i], cudaStreamNonBlocking, priority);
        HIL_TRY(hil_cuda_check(&d->device, error, "create a stream"));
    }
    d->stream = d->streams[HIL_STREAM_COMPUTE];
    return HIL_OK;
}

static hil_status open_libraries(hil_cuda *d)
{
    const hil_device *device = &d->device;
    if (cudnnGetCudartVersion() / 1000 != CUDART_VERSION / 1000)
        return hil_fail(HIL_ERR_INPUT,
                        "libcudnn.so.9 is that of CUDA %d; hilbert needs the one of CUDA %d",
                        (int)(cudnnGetCudartVersion() / 1000), CUDART_VERSION / 1000);
    HIL_TRY(hil_cublas_check(device, cublasLtCreate(&d->blas), "start cuBLASLt"));
    HIL_TRY(hil_cudnn_check(device, cudnnCreate(&d->dnn), "start cuDNN"));
    return hil_cudnn_check(device, cudnnSetStream(d->dnn, d->stream), "start cuDNN");
}

static hil_status open_parts(hil_cuda *d)
{
    hil_device *device = &d->device;
    cudaDeviceProp about;
    HIL_TRY(hil_cuda_check(device, cudaGetDeviceProperties(&about, d->index), "ask for its name"));
    uint64_t before = hil_cuda_free_bytes(about.pciDomainID, about.pciBusID, about.pciDeviceID);
    HIL_TRY(hil_cuda_check(device, cudaSetDevice(d->index), "start"));
    HIL_TRY(check_age(d, &about));
    HIL_TRY(open_streams(d));
    HIL_TRY(hil_cuda_check(device, cudaEventCreate(&d->timer[0]), "create an event"));
    HIL_TRY(hil_cuda_check(device, cudaEventCreate(&d->timer[1]), "create an event"));
    HIL_TRY(hil_cuda_check(device, cudaMalloc(&d->workspace, HIL_CUDA_WORKSPACE), "allocate"));
    HIL_TRY(
        hil_cuda_check(device, cudaMallocHost((void **)&d->fault, sizeof *d->fault), "pin memory"));
    memset(d->fault, 0, sizeof *d->fault);
    HIL_TRY(open_libraries(d));
    HIL_TRY(hil_cuda_check(device, cudaMemGetInfo(&device->available, &device->memory),
                           "ask for its memory"));
    device->outside = before > device->available ? before - device->available : HIL_CUDA_WORKSPACE;
    device->fp8 = about.major * 10 + about.minor >= 89;
    device->pin_piece = HIL_CUDA_PIECE;
    snprintf(device->name, sizeof device->name, "%.63s", about.name);
    memcpy(device->id, about.uuid.bytes, sizeof device->id);
    return HIL_OK;
}

static hil_status check_index(int index)
{
    int count = 0, driver = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess)
        return hil_fail(HIL_ERR_INPUT,
                        "NVIDIA's driver is one for CUDA %d.%d; hilbert needs one for CUDA %d or "
                        "newer; update the driver, or use --device cpu",
                        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000);
    if (error != cudaSuccess)
        return hil_fail(HIL_ERR_INPUT, "cannot use NVIDIA's driver: %s", cudaGetErrorString(error));
    if (index < 0 || index >= count)
        return hil_fail(HIL_ERR_USAGE, "there is no GPU %d: the driver shows %d", index, count);
    return HIL_OK;
}

static hil_status adopt(hil_device *device, void *stream)
{
    hil_cuda *d = hil_cuda_of(device);
    cudaSetDevice(d->index);
    if (!d->adopted) cudaStreamDestroy(d->stream);
    d->adopted = true;
    d->stream = d->streams[HIL_STREAM_COMPUTE] = (cudaStream_t)stream;
    return hil_cudnn_check(device, cudnnSetStream(d->dnn, d->stream), "take a stream");
}

hil_status hil_cuda_open(hil_device **out, int index)
{
    *out = NULL;
    HIL_TRY(check_index(index));
    hil_cuda *d;
    HIL_TRY(HIL_ALLOC(1, &d));
    d->index = index;
    d->device.heap = &hil_cuda_heap;
    d->device.events = &hil_cuda_events;
    d->device.queue = &hil_cuda_queue;
    d->device.close = hil_cuda_close;
    d->device.adopt = adopt;
    hil_status status = open_parts(d);
    if (status != HIL_OK)
        hil_cuda_close(&d->device);
    else
        *out = &d->device;
    return status;
}

void hil_cuda_close(hil_device *device)
{
    if (!device) return;
    hil_cuda *d = hil_cuda_of(device);
    cudaSetDevice(d->index);
    for (int i = 0; i < HIL_STREAMS; ++i)
        if (d->streams[i] || d->adopted) cudaStreamSynchronize(d->streams[i]);
    if (d->matmul.free) d->matmul.free(d->matmul.data);
    if (d->attention.free) d->attention.free(d->attention.data);
    if (d->dnn) cudnnDestroy(d->dnn);
    if (d->blas) cublasLtDestroy(d->blas);
    cudaFreeHost(d->fault);
    cudaFree(d->workspace);
    for (int i = 0; i < 2; ++i)
        if (d->timer[i]) cudaEventDestroy(d->timer[i]);
    for (int i = 0; i < HIL_STREAMS; ++i)
        if (d->streams[i] && !(d->adopted && i == HIL_STREAM_COMPUTE))
            cudaStreamDestroy(d->streams[i]);
    hil_free(d);
}

void *hil_cuda_stream_for(const hil_device *device, hil_stream stream)
{
    return hil_cuda_stream(device, stream);
}

hil_status hil_cuda_timer_begin(hil_device *device)
{
    hil_cuda *d = hil_cuda_of(device);
    return hil_cuda_check(device, cudaEventRecord(d->timer[0], d->stream), "time");
}

hil_status hil_cuda_timer_end(hil_device *device, double *seconds)
{
    hil_cuda *d = hil_cuda_of(device);
    float milliseconds = 0;
    HIL_TRY(hil_cuda_check(device, cudaEventRecord(d->timer[1], d->stream), "time"));
    HIL_TRY(hil_cuda_check(device, cudaEventSynchronize(d->timer[1]), "finish the work"));
    HIL_TRY(hil_cuda_check(device, cudaEventElapsedTime(&milliseconds, d->timer[0], d->timer[1]),
                           "time"));
    *seconds = milliseconds * 1e-3;
    return HIL_OK;
}
