/* cuda_load.h - finds the module that computes on GPUs, and the libraries that it needs. */
#ifndef HIL_MACHINE_CUDA_LOAD_H
#define HIL_MACHINE_CUDA_LOAD_H

#include "machine/cuda_module.h"

/* GPUs that the driver shows, without starting any; 0 where there is no driver. */
int hil_cuda_visible(void);
/* `prefixes`: folders, separated by colons, under which Python's environments may have NVIDIA's
   libraries; NULL: none. Everything stays loaded. */
hil_status hil_cuda_load(const char *prefixes, hil_cuda_module_open *out);
/* What connects GPUs of several ranks, once one is open. */
hil_status hil_cuda_load_wires(const char *prefixes, const hil_wire_maker **out);

#endif
