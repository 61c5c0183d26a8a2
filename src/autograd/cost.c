/* cost.c - work divided by speed. */
#include "autograd/cost.h"

#include <math.h>

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

/* A core's part of a model's states that the last cache holds beside all else, and one that leaves
   nothing there until it is used again. */
#define NEAR_STATES 10e6
#define FAR_STATES 40e6

double hil_cost_cached(const hil_speeds *speeds, double states)
{
    if (!(speeds->cached > 0) || !(speeds->threads > 0)) return speeds->cached;
    double part = (states / speeds->threads - NEAR_STATES) / (FAR_STATES - NEAR_STATES);
    part = fmin(fmax(part, 0), 1);
    return 1 / (part / speeds->memory + (1 - part) / speeds->cached);
}

#define TILES 2 /* of weights: part of hil_speeds.op_call */

/* Where the probe did not measure them: as on two cores with AVX-512. */
#define PACK_OPERATIONS 18 /* of a product in fp32, in the time of packing a number */

static double vector_speed(const hil_speeds *speeds, hil_dtype compute)
{
    return speeds->vector[compute] > 0 ? speeds->vector[compute] : speeds->gemm[HIL_F32];
}

static double pack_speed(const hil_speeds *speeds, hil_dtype compute)
{
    return speeds->pack[compute] > 0 ? speeds->pack[compute]
                                     : speeds->gemm[HIL_F32] / PACK_OPERATIONS;
}

/* Overhead of an operation, or of a further tile, without the runs of the pool. */
static double call_seconds(const hil_speeds *speeds)
{
    return speeds->op_call - HIL_COST_RUNS * speeds->pool_run;
}

double hil_cost_rest(const hil_work *work, const hil_speeds *speeds, hil_dtype compute)
{
    return work->vector / vector_speed(speeds, compute) +
           work->packed / pack_speed(speeds, compute) + move_seconds(work->bytes, speeds) +
           work->runs * speeds->pool_run + fmax(0, work->tiles - TILES) * call_seconds(speeds);
}

double hil_cost_expand(const hil_quant_tile *tile, size_t bytes, const hil_speeds *speeds)
{
    /* Operations of a loop for each number on the CPU: measured. */
    static const double operations[] = {[HIL_QUANT_NF4] = 120,
                                        [HIL_QUANT_NF4_PLAIN] = 120,
                                        [HIL_QUANT_INT8] = 55,
                                        [HIL_QUANT_FP8] = 190,
                                        [HIL_QUANT_BF16] = 20};
    double seconds = speeds->op_call + (double)(tile->bytes + bytes) / speeds->memory;
    if (speeds->update_device > 0) return seconds;
    return seconds + operations[tile->quant] * (double)(tile->rows * tile->cols) /
                         vector_speed(speeds, HIL_F32);
}

double hil_cost_seconds(const hil_work *work, const hil_speeds *speeds, hil_dtype compute)
{
    double alone = fmax(1, speeds->alone), faster = alone / (alone - (alone - 1) * work->idle);
    double fp8 = speeds->gemm_fp8 > 0 ? speeds->gemm_fp8 : speeds->gemm[compute];
    double multiply = work->gemm / speeds->gemm[compute] + work->gemm_fp8 / fp8 +
                      work->attention / (speeds->attention[compute] * faster);
    /* On a GPU, memory traffic overlaps with the products. */
    if (speeds->update_device > 0)
        return speeds->op_call * fmax(1, work->kernels) +
               fmax(multiply, work->bytes / speeds->memory) + work->apart / speeds->memory;
    return call_seconds(speeds) + multiply + hil_cost_rest(work, speeds, compute);
}
