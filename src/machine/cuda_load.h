/* cuda_load.h - finds the module that computes on GPUs, and the libraries that it needs. */
#ifndef HIL_MACHINE_CUDA_LOAD_H
#define HIL_MACHINE_CUDA_LOAD_H

#include "machine/cuda_module.h"

/* Number of GPUs that the driver shows, 0 without a driver. Initialises none of them. */
int hil_gpu_visible(void);
/* Loads the module and the libraries that it needs. `prefixes`: folders, separated by colons, of
   Python environments that may have NVIDIA's libraries; NULL: none. Nothing is ever unloaded. */
hil_status hil_gpu_load(const char *prefixes, hil_cuda_module_open *out);
/* Finds the module's NCCL device comm, which connects GPUs of several ranks. Call after a GPU is
 * open. */
hil_status hil_gpu_load_device_comm(const char *prefixes, const hil_device_comm_maker **out);

#endif
