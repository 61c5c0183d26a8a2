/* kernels.h - the store's arithmetic: rounding of gradient sums, squares for the norm, sums over
   ranks. The store moves bytes and calls these; a device has them as a table. */
#ifndef HIL_KERNELS_KERNELS_H
#define HIL_KERNELS_KERNELS_H

#include "device/device.h"
#include "kernels/block.h"

/* Adds the squares of the block's summed gradient to lanes: element i to lane i modulo HIL_SQUARES.
   Pieces of a block that follow each other, all but the last of whole groups of HIL_CODEC_GROUP,
   give the same bits as the whole block. */
void hil_block_square(const hil_block *block, double lane[HIL_SQUARES]);
/* The lanes of a block added in order. */
double hil_lanes_add(const double lane[HIL_SQUARES]);

/* Elements of a member of a unit: `count` from `first` on, both multiples of HIL_CODEC_GROUP: the
   zeros behind a member may belong to it. `sum` and `out` are of the first of them, aligned to 16
   bytes. `lanes` and `square` are of the member's first block: what is there of a block that other
   stretches begin or end, and the sum of its lanes, in order, when all of it is there. */
typedef struct hil_stretch {
    int64_t first, count;
    const float *sum;
    void *out;
    double *lanes, *square; /* NULL: nothing is squared */
    bool last;              /* it has the member's last element */
} hil_stretch;
/* How many blocks of the member it has a part of. */
static inline HIL_BOTH int64_t hil_stretch_blocks(const hil_stretch *stretch)
{
    return (stretch->first + stretch->count + HIL_BLOCK - 1) / HIL_BLOCK -
           stretch->first / HIL_BLOCK;
}

/* out = sum, rounded to the dtype, of every stretch. What was rounded is squared as by
   hil_block_square, block by block. In fp32 `out` may be `sum`. */
#define HIL_STRETCHES 64
typedef struct hil_rounding {
    hil_dtype dtype;
    int stretches;
    hil_stretch stretch[HIL_STRETCHES];
} hil_rounding;
static inline int64_t hil_rounding_blocks(const hil_rounding *rounding)
{
    int64_t blocks = 0;
    for (int i = 0; i < rounding->stretches; ++i)
        blocks += hil_stretch_blocks(&rounding->stretch[i]);
    return blocks;
}
/* One of its blocks, on the CPU. */
void hil_rounding_run(const hil_rounding *rounding, int64_t block);

/* The same arithmetic on a device, with the same bits; queued. All memory is the device's but for
   `shared` and `square`, which it shares with the host, and for what describes the work. */
typedef struct hil_device_math {
    hil_status (*round)(hil_device *device, hil_stream stream, const hil_rounding *rounding);
    /* Adds the squares of a block that begins at element `first` (a multiple of HIL_CODEC_GROUP) of
       its member: element i to lane[i / HIL_BLOCK][i % HIL_SQUARES]. */
    hil_status (*square)(hil_device *device, hil_stream stream, const hil_block *block,
                         int64_t first, double *lanes);
    /* shared[b] = the lanes of block b, added in order. */
    hil_status (*squared)(hil_device *device, hil_stream stream, const double *lanes,
                          int64_t blocks, double *shared);
    /* The update rule of a step (optim/update.h) on one block of any length. */
    hil_status (*update)(hil_device *device, hil_stream stream, const void *rule,
                         const hil_block *block);
    /* out = the sum over ranks of parts (ranks, out's elements), in fp32 in the order of ranks. */
    hil_status (*reduce)(hil_device *device, hil_stream stream, const hil_tensor *out,
                         const void *parts, int ranks);
} hil_device_math;
/* `reduce` on the CPU. */
void hil_reduce_run(const hil_tensor *out, const void *parts, int ranks);

#endif
