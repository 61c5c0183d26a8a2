/* cuda_module.c - the functions of the module that computes on GPUs, see cuda_module.h. */
#include "train/cuda_module.h"

#include "comm/wire_nccl.h"
#include "ops/cuda.h"
#include "optim/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static hil_cuda_host program;

/* The module's own: the message belongs to the program. */
hil_status hil_fail(hil_status code, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return program.fail(code, "%s", text);
}

__attribute__((visibility("default"))) hil_status hil_cuda_open_device(hil_device **out, int index,
                                                                       const hil_cuda_host *host);

hil_status hil_cuda_open_device(hil_device **out, int index, const hil_cuda_host *host)
{
    hil_cuda_host own = hil_cuda_host_of();
    program = *host;
    own.fail = host->fail;
    if (memcmp(&own, host, sizeof own) != 0)
        return hil_fail(HIL_ERR_INPUT, "hilbert_cuda.so is of another build than the program");
    HIL_TRY(hil_cuda_open(out, index));
    (*out)->ops = &hil_cuda_ops;
    (*out)->math = &hil_cuda_math;
    return HIL_OK;
}

#ifdef HIL_HAS_NCCL
__attribute__((visibility("default"))) hil_status hil_cuda_find_wires(const hil_wire_maker **out);

hil_status hil_cuda_find_wires(const hil_wire_maker **out)
{
    return hil_wire_nccl_find(out);
}
#endif
