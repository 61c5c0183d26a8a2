/* engine_cuda.cu - a GPU's memory, streams, events and copies. */
#include "device/cuda_device.h"

extern "C" {
#include "base/clock.h"
}

#include <string.h>

static hil_status enter(const hil_device *device)
{
    return hil_cuda_check(device, cudaSetDevice(hil_cuda_of(device)->index), "start");
}

static hil_status alloc(hil_device *device, size_t bytes, void **out)
{
    *out = NULL;
    HIL_TRY(enter(device));
    return hil_cuda_check(device, cudaMalloc(out, bytes ? bytes : 1), "allocate");
}

static void release(hil_device *device, void *memory)
{
    if (enter(device) == HIL_OK) cudaFree(memory);
}

static hil_status share(hil_device *device, size_t bytes, void **out)
{
    *out = NULL;
    HIL_TRY(enter(device));
    HIL_TRY(hil_cuda_check(device, cudaMallocHost(out, bytes ? bytes : 1), "share memory"));
    memset(*out, 0, bytes);
    return HIL_OK;
}

static void unshare(hil_device *device, void *memory)
{
    if (enter(device) == HIL_OK) cudaFreeHost(memory);
}

static hil_status create_event(hil_device *device, hil_event **out)
{
    *out = NULL;
    HIL_TRY(enter(device));
    cudaError_t error = cudaEventCreateWithFlags((cudaEvent_t *)out,
                                                 cudaEventDisableTiming | cudaEventBlockingSync);
    return hil_cuda_check(device, error, "create an event");
}

static void destroy_event(hil_device *device, hil_event *event)
{
    (void)device;
    if (event) cudaEventDestroy((cudaEvent_t)event);
}

static hil_status record(hil_device *device, hil_stream stream, hil_event *event)
{
    cudaStream_t on = hil_cuda_stream(device, stream);
    return hil_cuda_check(device, cudaEventRecord((cudaEvent_t)event, on), "record an event");
}

static hil_status follow(hil_device *device, hil_stream stream, hil_event *event)
{
    cudaStream_t on = hil_cuda_stream(device, stream);
    return hil_cuda_check(device, cudaStreamWaitEvent(on, (cudaEvent_t)event), "order streams");
}

static hil_status wait(hil_device *device, hil_event *event)
{
    HIL_TRY(enter(device));
    return hil_cuda_check(device, cudaEventSynchronize((cudaEvent_t)event), "finish the work");
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static hil_status copy(hil_device *device, hil_stream stream, void *to, const void *from,
                       size_t bytes)
{
    cudaStream_t on = hil_cuda_stream(device, stream);
    for (size_t at = 0, part; at < bytes; at += part) {
        char *target = (char *)to + at;
        const char *source = (const char *)from + at;
        part = least(bytes - at, HIL_CUDA_PIECE - (uintptr_t)target % HIL_CUDA_PIECE);
        part = least(part, HIL_CUDA_PIECE - (uintptr_t)source % HIL_CUDA_PIECE);
        HIL_TRY(hil_cuda_check(device, cudaMemcpyAsync(target, source, part, cudaMemcpyDefault, on),
                               "copy"));
    }
    return HIL_OK;
}

static hil_status zero(hil_device *device, hil_stream stream, void *to, size_t bytes)
{
    cudaStream_t on = hil_cuda_stream(device, stream);
    return hil_cuda_check(device, cudaMemsetAsync(to, 0, bytes, on), "fill memory");
}

static void CUDART_CB note_time(void *when)
{
    *(double *)when = hil_clock_now();
}

static hil_status stamp(hil_device *device, hil_stream stream, double *when)
{
    cudaStream_t on = hil_cuda_stream(device, stream);
    return hil_cuda_check(device, cudaLaunchHostFunc(on, note_time, when), "note the time");
}

static hil_status finish(hil_device *device)
{
    hil_cuda *d = hil_cuda_of(device);
    HIL_TRY(enter(device));
    HIL_TRY(hil_cuda_check(device, cudaStreamSynchronize(d->stream), "finish the work"));
    hil_cuda_fault fault = *d->fault;
    if (!fault.set) return HIL_OK;
    memset(d->fault, 0, sizeof *d->fault);
    return hil_fail(HIL_ERR_INPUT, "id %d is outside the table of %lld rows", fault.id, fault.rows);
}

const hil_device_heap hil_cuda_heap = {.alloc = alloc,
                                       .free = release,
                                       .pin = hil_cuda_pin,
                                       .unpin = hil_cuda_unpin,
                                       .share = share,
                                       .unshare = unshare};

const hil_device_events hil_cuda_events = {.create = create_event,
                                           .destroy = destroy_event,
                                           .record = record,
                                           .follow = follow,
                                           .wait = wait};

const hil_device_queue hil_cuda_queue = {
    .copy = copy, .zero = zero, .stamp = stamp, .finish = finish};
