/* cuda_module.h - what the program and the module that computes on GPUs know of each other. */
#ifndef HIL_TRAIN_CUDA_MODULE_H
#define HIL_TRAIN_CUDA_MODULE_H

#include "comm/wire.h"
#include "store/store.h"
#include "ops/op.h"

/* The module has its own copies of what it needs of the library, and calls nothing of the program
   but what it is given here: so it loads into any. Sizes tell a module of another build. */
typedef struct hil_cuda_host {
    size_t device, engine, call, block, wire;
    hil_status (*fail)(hil_status code, const char *format, ...) HIL_PRINTF(2, 3); /* hil_fail */
} hil_cuda_host;

static inline hil_cuda_host hil_cuda_host_of(void)
{
    return (hil_cuda_host){sizeof(hil_device), sizeof(hil_device_engine), sizeof(hil_op_call),
                           sizeof(hil_block),  sizeof(hil_wire_engine),   hil_fail};
}

/* The module's first function: a device with operations and arithmetic, closed by its engine. */
#define HIL_CUDA_MODULE_OPEN "hil_cuda_open_device"
typedef hil_status (*hil_cuda_module_open)(hil_device **out, int index, const hil_cuda_host *host);
/* Its second, called after the first; there is none where it was built without NCCL. */
#define HIL_CUDA_MODULE_WIRES "hil_cuda_find_wires"
typedef hil_status (*hil_cuda_module_wires)(const hil_wire_maker **out);

#endif
