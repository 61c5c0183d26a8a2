/* cost.c - work divided by speed. */
#include "autograd/cost.h"

#include <math.h>

/* Operations of a product in fp32 that take as long as packing a number: fitted to products of 64
   to 512 rows on one core with AVX-512. */
#define PACK_OPERATIONS 20
/* A core's part of an operation that its caches hold, and one that comes from memory. */
#define CACHED_BYTES 0.5e6
#define UNCACHED_BYTES 4e6

/* Seconds to move so many bytes by all cores. */
static double move_seconds(double bytes, const hil_speeds *speeds)
{
    if (!(speeds->cached > 0)) return bytes / speeds->memory;
    double part = (bytes / speeds->threads - CACHED_BYTES) / (UNCACHED_BYTES - CACHED_BYTES);
    part = fmin(fmax(part, 0), 1);
    return bytes * (part / speeds->memory + (1 - part) / speeds->cached);
}

double hil_cost_rest(const hil_work *work, const hil_speeds *speeds)
{
    return work->packed * PACK_OPERATIONS / speeds->gemm[HIL_F32] +
           move_seconds(work->bytes + work->extra, speeds) + work->runs * speeds->pool_run;
}

double hil_cost_seconds(const hil_work *work, const hil_speeds *speeds, hil_dtype compute)
{
    double fp8 = speeds->gemm_fp8 > 0 ? speeds->gemm_fp8 : speeds->gemm[compute];
    double multiply = work->gemm / speeds->gemm[compute] + work->gemm_fp8 / fp8 +
                      work->attention / speeds->attention[compute];
    /* On a GPU, memory traffic overlaps with the products. */
    if (speeds->update_device > 0)
        return speeds->op_call + fmax(multiply, work->bytes / speeds->memory) +
               work->apart / speeds->memory;
    return speeds->op_call - HIL_COST_RUNS * speeds->pool_run + multiply +
           hil_cost_rest(work, speeds);
}
