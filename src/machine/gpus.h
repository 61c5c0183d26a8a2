/* gpus.h - GPUs that a plan can be made for without having one: what their data sheets say. */
#ifndef HIL_MACHINE_GPUS_H
#define HIL_MACHINE_GPUS_H

#include "device/device.h"
#include "hilbert/speeds.h"

typedef struct hil_gpu {
    const char *name;
    uint64_t mib;      /* of memory, as the driver shows it */
    double bf16, fp32; /* TFLOP/s: dense matrix units with fp32 sums; without matrix units */
    double memory;     /* GB/s */
    double bus;        /* GB/s in each direction: PCIe with 16 lanes */
} hil_gpu;

/* The GPU that `name` means: "RTX 4090", "rtx4090", "4090", "NVIDIA A100 80GB". A name that is not
   in the table is an error that lists those that are. */
hil_status hil_gpu_find(const char *name, const hil_gpu **out);
/* What a GPU decides of `speeds`: a stated part of what its data sheet promises. */
void hil_gpu_speeds(const hil_gpu *gpu, hil_speeds *speeds);
/* Gives a device of threads the GPU's name and memory, for rehearsals on it. */
void hil_gpu_describe(const hil_gpu *gpu, hil_device *device);

#endif
