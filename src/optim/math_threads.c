/* math_threads.c - what the CPU computes with, queued on the threads of a device. */
#include "optim/math_threads.h"

#include "device/device_threads.h"
#include "optim/update.h"

#include <string.h>

static hil_status run_round(void *args)
{
    const hil_rounding *what = args;
    int64_t blocks = hil_rounding_blocks(what);
    for (int64_t b = 0; b < blocks; ++b) hil_rounding_run(what, hil_block_square, b);
    return HIL_OK;
}

static hil_status queue_round(hil_device *device, hil_stream stream, const hil_rounding *what)
{
    return hil_device_threads_call(device, stream, run_round, what, sizeof *what);
}

typedef struct squaring {
    hil_block block;
    int64_t first;
    double *lanes;
} squaring;

static hil_status run_square(void *args)
{
    const squaring *s = args;
    size_t size = hil_dtype_size(s->block.dtype);
    for (int64_t done = 0; done < s->block.count;) {
        int64_t at = s->first + done, room = HIL_BLOCK - at % HIL_BLOCK;
        hil_block piece = s->block;
        piece.count = room < s->block.count - done ? room : s->block.count - done;
        for (int u = 0; u < piece.gradients; ++u)
            piece.gradient[u] = (const char *)piece.gradient[u] + (size_t)done * size;
        hil_block_square(&piece, s->lanes + HIL_SQUARES * (at / HIL_BLOCK));
        done += piece.count;
    }
    return HIL_OK;
}

static hil_status queue_square(hil_device *device, hil_stream stream, const hil_block *block,
                               int64_t first, double *lanes)
{
    squaring s = {*block, first, lanes};
    return hil_device_threads_call(device, stream, run_square, &s, sizeof s);
}

typedef struct adding {
    const double *lanes;
    int64_t blocks;
    double *shared;
} adding;

static hil_status run_squared(void *args)
{
    const adding *a = args;
    for (int64_t b = 0; b < a->blocks; ++b) {
        double sum = 0;
        for (int k = 0; k < HIL_SQUARES; ++k) sum += a->lanes[HIL_SQUARES * b + k];
        a->shared[b] = sum;
    }
    return HIL_OK;
}

static hil_status queue_squared(hil_device *device, hil_stream stream, const double *lanes,
                                int64_t blocks, double *shared)
{
    adding a = {lanes, blocks, shared};
    return hil_device_threads_call(device, stream, run_squared, &a, sizeof a);
}

typedef struct updating {
    hil_update_rule rule;
    hil_block block;
} updating;

static hil_status run_update(void *args)
{
    const updating *u = args;
    hil_rule_update(u->rule.rule, &u->rule.step[u->block.decay], &u->block);
    return HIL_OK;
}

static hil_status queue_update(hil_device *device, hil_stream stream, const void *rule,
                               const hil_block *block)
{
    updating u = {*(const hil_update_rule *)rule, *block};
    return hil_device_threads_call(device, stream, run_update, &u, sizeof u);
}

typedef struct reducing {
    hil_tensor out;
    const void *parts;
    int ranks;
} reducing;

static hil_status run_reduce(void *args)
{
    const reducing *r = args;
    hil_reduce_run(&r->out, r->parts, r->ranks);
    return HIL_OK;
}

static hil_status queue_reduce(hil_device *device, hil_stream stream, const hil_tensor *out,
                               const void *parts, int ranks)
{
    reducing r = {*out, parts, ranks};
    return hil_device_threads_call(device, stream, run_reduce, &r, sizeof r);
}

const hil_device_math hil_math_threads = {
    .round = queue_round,
    .square = queue_square,
    .squared = queue_squared,
    .update = queue_update,
    .reduce = queue_reduce,
};
