/* cuda_module.h - what the program and the module that computes on GPUs know of each other. */
#ifndef HIL_MACHINE_CUDA_MODULE_H
#define HIL_MACHINE_CUDA_MODULE_H

#include "comm/wire.h"
#include "ops/op.h"

/* A string of the module: HIL_INTERFACE, the checksum of the headers that it was built from. Only
   with that of the program may anything of it be called. */
#define HIL_CUDA_MODULE_INTERFACE "hil_cuda_interface"

/* Its first function: a device with operations and arithmetic, closed by its engine. The module has
   its own copies of what it needs of the library, and calls nothing of the program but `fail`
   (hil_fail): so it loads into any. */
#define HIL_CUDA_MODULE_OPEN "hil_cuda_open_device"
typedef hil_status hil_cuda_module_fail(hil_status code, const char *format, ...) HIL_PRINTF(2, 3);
typedef hil_status (*hil_cuda_module_open)(hil_device **out, int index, hil_cuda_module_fail *fail);
/* Its second, called after the first; there is none where it was built without NCCL. */
#define HIL_CUDA_MODULE_WIRES "hil_cuda_find_wires"
typedef hil_status (*hil_cuda_module_wires)(const hil_wire_maker **out);

#endif
