/* gpus.h - data sheets of GPUs, to plan for one that this machine lacks. */
#ifndef HIL_MACHINE_GPUS_H
#define HIL_MACHINE_GPUS_H

#include "device/device.h"
#include "hilbert/speeds.h"

#define HIL_UPDATE_BYTES 26 /* that AdamW reads and writes per parameter */

typedef struct hil_gpu {
    const char *name;
    uint64_t mib;      /* of memory, as the driver shows it */
    double bf16, fp32; /* TFLOP/s: bf16 on tensor cores with fp32 sums; fp32 without them */
    double memory;     /* GB/s */
    double bus;        /* GB/s in each direction: PCIe with 16 lanes */
    double fp8;        /* TFLOP/s in 8 bits with fp32 sums; 0: it has no such products */
} hil_gpu;

/* Finds a GPU by name: "RTX 4090", "rtx4090", "4090", "NVIDIA A100 80GB". For a name that is not in
   the table it fails with a message that lists the table. */
hil_status hil_gpu_find(const char *name, const hil_gpu **out);
/* Sets the speeds that depend on the GPU, as fractions of its data sheet's numbers. */
void hil_gpu_speeds(const hil_gpu *gpu, hil_speeds *speeds);
/* The reverse: what a data sheet would say of a device with these speeds and bytes of memory. */
void hil_gpu_measured(const hil_speeds *speeds, uint64_t bytes, hil_gpu *gpu);
/* Gives the test device the GPU's name and memory, so that plans can be rehearsed on it. */
void hil_gpu_describe(const hil_gpu *gpu, hil_device *device);

#endif
