/* cost.c - work divided by speed. */
#include "autograd/cost.h"

double hil_work_seconds(const hil_work *work, const hil_speeds *speeds, hil_dtype compute)
{
    return speeds->op_call + work->gemm / speeds->gemm[compute] +
           work->attention / speeds->attention[compute] + work->bytes / speeds->memory;
}
