/* cost.c - work divided by speed. */
#include "autograd/cost.h"

#include <math.h>

double hil_cost_seconds(const hil_work *work, const hil_speeds *speeds, hil_dtype compute)
{
    double multiply =
        work->gemm / speeds->gemm[compute] + work->attention / speeds->attention[compute];
    /* On a GPU, memory traffic overlaps with the products. */
    if (speeds->update_device > 0)
        return speeds->op_call + fmax(multiply, work->bytes / speeds->memory) +
               work->apart / speeds->memory;
    return speeds->op_call + multiply + (work->bytes + work->extra) / speeds->memory;
}
