/* cuda_module.c - the functions of the module that computes on GPUs, see cuda_module.h. */
#include "machine/cuda_module.h"

#include "comm/device_comm_nccl.h"
#include "ops/cuda.h"
#include "optim/cuda.h"
#include "machine/interface.h"

#include <stdarg.h>
#include <stdio.h>

extern const char hil_cuda_interface[];
__attribute__((visibility("default"))) const char hil_cuda_interface[] = HIL_INTERFACE;

static hil_cuda_module_fail *program_fail;

/* The module's hil_fail: passes the message to the program's. */
hil_status hil_fail(hil_status code, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return program_fail(code, "%s", text);
}

__attribute__((visibility("default"))) hil_status hil_cuda_open_device(hil_device **out, int index,
                                                                       hil_cuda_module_fail *fail);

hil_status hil_cuda_open_device(hil_device **out, int index, hil_cuda_module_fail *fail)
{
    program_fail = fail;
    HIL_TRY(hil_cuda_open(out, index));
    hil_device_ops_set(*out, &hil_cuda_ops);
    hil_device_math_set(*out, &hil_cuda_math);
    return HIL_OK;
}

#ifdef HIL_HAS_NCCL
__attribute__((visibility("default"))) hil_status
hil_cuda_find_device_comm(const hil_device_comm_maker **out);

hil_status hil_cuda_find_device_comm(const hil_device_comm_maker **out)
{
    return hil_device_comm_nccl_find(out);
}
#endif
