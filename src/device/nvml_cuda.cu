/* nvml_cuda.cu - free memory of a GPU before this process has a context there: asks NVML, because
   CUDA needs a context, which takes memory. */
#include "device/cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>

typedef struct memory {
    unsigned long long total, free, used;
} memory;

static uint64_t ask(void *library, const char *address)
{
    auto begin = (int (*)(void))dlsym(library, "nvmlInit_v2");
    auto end = (int (*)(void))dlsym(library, "nvmlShutdown");
    auto find = (int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    auto tell = (int (*)(void *, memory *))dlsym(library, "nvmlDeviceGetMemoryInfo");
    void *gpu;
    memory found = {};
    if (!begin || !end || !find || !tell || begin() != 0) return 0;
    if (find(address, &gpu) == 0) tell(gpu, &found);
    end();
    return found.free;
}

uint64_t hil_cuda_free_bytes(int domain, int bus, int slot)
{
    char address[32];
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    snprintf(address, sizeof address, "%08x:%02x:%02x.0", domain, bus, slot);
    uint64_t bytes = ask(library, address);
    dlclose(library);
    return bytes;
}
