/* cuda_module.h - the interface between the program and the GPU module (hilbert_cuda.so). */
#ifndef HIL_MACHINE_CUDA_MODULE_H
#define HIL_MACHINE_CUDA_MODULE_H

#include "comm/device_comm.h"
#include "ops/op.h"

/* Symbol of a string: HIL_INTERFACE, the checksum of the headers that the module was built from.
   The program calls the module only if it equals its own. */
#define HIL_CUDA_MODULE_INTERFACE "hil_cuda_interface"

/* Symbol of the function that opens a device with its operations and arithmetic; the device's
   engine closes it. The module has its own copies of the library code that it needs and calls only
   `fail` (hil_fail) of the program, so it loads into any program. */
#define HIL_CUDA_MODULE_OPEN "hil_cuda_open_device"
typedef hil_status hil_cuda_module_fail(hil_status code, const char *format, ...) HIL_PRINTF(2, 3);
typedef hil_status (*hil_cuda_module_open)(hil_device **out, int index, hil_cuda_module_fail *fail);
/* Symbol of the function that finds the device comm, called after a device is open; missing if the
   module was built without NCCL. */
#define HIL_CUDA_MODULE_DEVICE_COMM "hil_cuda_find_device_comm"
typedef hil_status (*hil_cuda_module_device_comm)(const hil_device_comm_maker **out);

#endif
