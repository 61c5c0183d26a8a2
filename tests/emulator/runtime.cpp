/* runtime.cpp - CUDA's runtime for the emulated GPU. What is queued on a stream is done as late as
   possible: when something waits for it. So what does not wait although it must, finds the old
   bytes; HIL_EMULATED_STREAMS=early does everything at once instead. */
#include "emulator.h"
#include "fibers.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MEMORY_BYTES ((size_t)2 << 30)

namespace
{

struct work {
    std::deque<std::function<void(void)>> queue;
    uint64_t queued, done;
};
typedef std::shared_ptr<work> shared_work;

struct event {
    shared_work on; /* NULL: never recorded */
    uint64_t number;
    double seconds;
};

std::recursive_mutex lock;
typedef std::lock_guard<std::recursive_mutex> guard;
std::map<cudaStream_t, shared_work> streams;
std::map<const char *, size_t> device_memory, pinned_memory;
std::map<const void *, size_t> allowed_shared; /* of kernels that asked for more than 48 KiB */
size_t used;
thread_local cudaError_t last = cudaSuccess;

bool is_early(void)
{
    static const char *when = getenv("HIL_EMULATED_STREAMS");
    return when && strcmp(when, "early") == 0;
}

cudaError_t note(cudaError_t error)
{
    if (error != cudaSuccess) last = error;
    return error;
}

shared_work work_of(cudaStream_t stream)
{
    shared_work &found = streams[stream];
    if (!found) found = std::make_shared<work>();
    return found;
}

void finish(const shared_work &on, uint64_t number)
{
    while (on->done < number) {
        if (on->queue.empty()) return; /* a callee is doing it */
        std::function<void(void)> next = std::move(on->queue.front());
        on->queue.pop_front();
        next();
        ++on->done;
    }
}

void finish_all(void)
{
    for (auto &each : streams) finish(each.second, each.second->queued);
}

void add(cudaStream_t stream, std::function<void(void)> what)
{
    shared_work on = work_of(stream);
    on->queue.push_back(std::move(what));
    ++on->queued;
    if (is_early()) finish(on, on->queued);
}

bool holds(const std::map<const char *, size_t> &memory, const void *data, size_t bytes)
{
    auto next = memory.upper_bound((const char *)data);
    if (next == memory.begin()) return false;
    --next;
    return (const char *)data + bytes <= next->first + next->second;
}

/* Whether a copy may be late: CUDA reads and writes memory that is not pinned before it returns. */
bool may_be_late(const void *data, size_t bytes)
{
    return holds(device_memory, data, bytes) || holds(pinned_memory, data, bytes);
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void copy_rows(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width,
               size_t rows)
{
    for (size_t i = 0; i < rows; ++i) memmove(to + i * to_pitch, from + i * from_pitch, width);
}

} // namespace

void emulator::queue_call(cudaStream_t stream, const std::function<void(void)> &what)
{
    guard hold(lock);
    add(stream, what);
}

void emulator::queue_kernel(const config &how, const void *kernel,
                            const std::function<void(void)> &body)
{
    guard hold(lock);
    unsigned threads = how.block.x * how.block.y * how.block.z;
    auto asked = allowed_shared.find(kernel);
    size_t most = asked == allowed_shared.end() ? 48 << 10 : asked->second;
    if (threads == 0 || threads > 1024 || how.grid.x == 0 || how.grid.y == 0 || how.grid.z == 0 ||
        how.grid.y > 65535 || how.grid.z > 65535 || how.shared > most) {
        note(cudaErrorInvalidConfiguration);
        return;
    }
    dim3 grid = how.grid, block = how.block;
    size_t shared = how.shared;
    add(how.stream, [grid, block, shared, body] { run_grid(grid, block, shared, body); });
}

extern "C" {

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the emulated GPU";
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return note(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "emulated GPU");
    out->major = HIL_EMULATED_ARCH / 10, out->minor = HIL_EMULATED_ARCH % 10;
    out->totalGlobalMem = MEMORY_BYTES;
    memcpy(out->uuid.bytes, "hilbert-emulated", sizeof out->uuid.bytes);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr name, int)
{
    switch ((int)name) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = HIL_EMULATED_ARCH / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = HIL_EMULATED_ARCH % 10;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = EMULATED_SHARED_BYTES;
        break;
    default:
        fprintf(stderr, "emulated GPU: attribute %d is not known\n", (int)name);
        return note(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    guard hold(lock);
    *available = MEMORY_BYTES - used;
    *total = MEMORY_BYTES;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    guard hold(lock);
    if (bytes > MEMORY_BYTES - used) return note(cudaErrorMemoryAllocation);
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*out) return note(cudaErrorMemoryAllocation);
    memset(*out, 0xff, bytes);
    device_memory[(const char *)*out] = bytes;
    used += bytes;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    guard hold(lock);
    if (!memory) return cudaSuccess;
    finish_all();
    auto found = device_memory.find((const char *)memory);
    if (found == device_memory.end()) return note(cudaErrorInvalidValue);
    used -= found->second;
    device_memory.erase(found);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    guard hold(lock);
    *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*out) return note(cudaErrorMemoryAllocation);
    memset(*out, 0xff, bytes);
    pinned_memory[(const char *)*out] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    guard hold(lock);
    if (!memory) return cudaSuccess;
    finish_all();
    if (!pinned_memory.erase((const char *)memory)) return note(cudaErrorInvalidValue);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    guard hold(lock);
    auto next = pinned_memory.lower_bound((const char *)memory);
    if (next != pinned_memory.end() && next->first < (const char *)memory + bytes)
        return note(cudaErrorHostMemoryAlreadyRegistered);
    if (holds(pinned_memory, memory, 1)) return note(cudaErrorHostMemoryAlreadyRegistered);
    pinned_memory[(const char *)memory] = bytes;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    guard hold(lock);
    finish_all();
    return note(pinned_memory.erase((const char *)memory) ? cudaSuccess
                                                          : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *most)
{
    *least = 0, *most = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned, int)
{
    guard hold(lock);
    *out = (cudaStream_t)malloc(1);
    work_of(*out);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithPriority(out, 0, 0);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    guard hold(lock);
    shared_work on = work_of(stream);
    finish(on, on->queued);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    guard hold(lock);
    finish_all();
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    guard hold(lock);
    cudaStreamSynchronize(stream);
    streams.erase(stream);
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = (cudaEvent_t) new event();
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t which)
{
    guard hold(lock);
    finish_all();
    delete (event *)which;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t which, cudaStream_t stream)
{
    guard hold(lock);
    event *e = (event *)which;
    add(stream, [e] { e->seconds = seconds(); });
    e->on = work_of(stream);
    e->number = e->on->queued;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t which, unsigned)
{
    guard hold(lock);
    shared_work on = ((event *)which)->on;
    uint64_t number = ((event *)which)->number;
    if (on) add(stream, [on, number] { finish(on, number); });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t which)
{
    guard hold(lock);
    event *e = (event *)which;
    if (e->on) finish(e->on, e->number);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    *milliseconds = (float)((((event *)to)->seconds - ((event *)from)->seconds) * 1e3);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind, cudaStream_t stream)
{
    guard hold(lock);
    if (width == 0 || rows == 0) return cudaSuccess;
    size_t to_bytes = (rows - 1) * to_pitch + width, from_bytes = (rows - 1) * from_pitch + width;
    bool late = may_be_late(to, to_bytes) && may_be_late(from, from_bytes);
    add(stream,
        [=] { copy_rows((char *)to, to_pitch, (const char *)from, from_pitch, width, rows); });
    return late ? cudaSuccess : cudaStreamSynchronize(stream);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    cudaDeviceSynchronize();
    cudaMemcpyAsync(to, from, bytes, kind, NULL);
    return cudaStreamSynchronize(NULL);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t rows,
                              cudaStream_t stream)
{
    guard hold(lock);
    add(stream, [=] {
        for (size_t i = 0; i < rows; ++i) memset((char *)to + i * pitch, value, width);
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return cudaMemset2DAsync(to, bytes, value, bytes, 1, stream);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    guard hold(lock);
    add(stream, [=] { function(data); });
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute name, int value)
{
    guard hold(lock);
    if (name != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value > EMULATED_SHARED_BYTES) return note(cudaErrorInvalidValue);
    allowed_shared[kernel] = (size_t)value;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, const void *)
{
    memset(out, 0, sizeof *out);
    out->ptxVersion = out->binaryVersion = HIL_EMULATED_ARCH;
    out->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

/* Hopper's clusters are not there. */
cudaError_t cudaOccupancyMaxActiveClusters(int *out, const void *, const cudaLaunchConfig_t *)
{
    *out = 0;
    return note(cudaErrorNotSupported);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **)
{
    return note(cudaErrorNotSupported);
}

/* Those of libcuda.so, by which the program counts GPUs. */
int cuInit(unsigned)
{
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}
}
