/* kernels_threads.c - the CPU's kernels, queued on the threads of a device. */
#include "kernels/kernels_threads.h"

#include "base/normal.h"
#include "device/device_threads.h"

#include <string.h>

static hil_status run_round(void *args)
{
    const hil_rounding *what = args;
    int64_t blocks = hil_rounding_blocks(what);
    for (int64_t b = 0; b < blocks; ++b) hil_rounding_run(what, b);
    return HIL_OK;
}

hil_status hil_threads_round(hil_device *device, hil_stream stream, const hil_rounding *what)
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
    size_t size = hil_dtype_size(s->block.sums ? HIL_F32 : s->block.dtype);
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

hil_status hil_threads_square(hil_device *device, hil_stream stream, const hil_block *block,
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
    for (int64_t b = 0; b < a->blocks; ++b)
        a->shared[b] = hil_lanes_add(a->lanes + HIL_SQUARES * b);
    return HIL_OK;
}

hil_status hil_threads_squared(hil_device *device, hil_stream stream, const double *lanes,
                               int64_t blocks, double *shared)
{
    adding a = {lanes, blocks, shared};
    return hil_device_threads_call(device, stream, run_squared, &a, sizeof a);
}

typedef struct reducing {
    hil_tensor out;
    const void *parts;
    int ranks;
} reducing;

static hil_status run_reduce(void *args)
{
    const reducing *r = args;
    hil_kernels_reduce(&r->out, r->parts, r->ranks);
    return HIL_OK;
}

hil_status hil_threads_reduce(hil_device *device, hil_stream stream, const hil_tensor *out,
                              const void *parts, int ranks)
{
    reducing r = {*out, parts, ranks};
    return hil_device_threads_call(device, stream, run_reduce, &r, sizeof r);
}

typedef struct expanding {
    hil_quant_tile tile;
    const void *bytes;
    hil_tensor out;
} expanding;

static hil_status run_expand(void *args)
{
    const expanding *e = args;
    hil_quant_expand(&e->tile, e->bytes, 0, e->tile.rows * e->tile.cols, &e->out);
    return HIL_OK;
}

hil_status hil_threads_expand(hil_device *device, hil_stream stream, const hil_quant_tile *tile,
                              const void *bytes, const hil_tensor *out)
{
    expanding e = {*tile, bytes, *out};
    return hil_device_threads_call(device, stream, run_expand, &e, sizeof e);
}

/* Elements drawn at once; whole blocks. */
#define DRAWN 4096
static hil_status run_draw(void *args)
{
    const hil_quant_draw *d = args;
    float numbers[DRAWN];
    for (int64_t at = 0; at < d->count; at += DRAWN) {
        int64_t n = d->count - at < DRAWN ? d->count - at : DRAWN;
        hil_normal_fill(d->key, d->high, d->first + at, n, d->scale, numbers);
        hil_quant_part part = {.quant = HIL_QUANT_NF4,
                               .count = n,
                               .in = numbers,
                               .codes = d->codes + at / 2,
                               .scale = d->scales + at / HIL_QUANT_BLOCK};
        hil_quant_encode(&part);
    }
    return HIL_OK;
}

hil_status hil_threads_draw(hil_device *device, hil_stream stream, const hil_quant_draw *draw)
{
    return hil_device_threads_call(device, stream, run_draw, draw, sizeof *draw);
}

static hil_status run_add(void *args)
{
    const hil_addend *a = args;
    hil_addend_run(a, 0, a->count);
    return HIL_OK;
}

hil_status hil_threads_add(hil_device *device, hil_stream stream, const hil_addend *addend)
{
    return hil_device_threads_call(device, stream, run_add, addend, sizeof *addend);
}
