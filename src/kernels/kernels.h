/* kernels.h - the store's arithmetic: rounding of gradient sums, squares for the norm, sums over
   ranks, expansion of quantized weights. The store moves bytes; it and the tape call these; a
   device has them as a table. */
#ifndef HIL_KERNELS_KERNELS_H
#define HIL_KERNELS_KERNELS_H

#include "base/pool.h"
#include "device/device.h"
#include "kernels/block.h"
#include "tensor/quant.h"

/* Adds the squares of the block's summed gradient to lanes: element i to lane i modulo HIL_SQUARES.
   Pieces of a block that follow each other, all but the last of whole groups of HIL_CODEC_GROUP,
   give the same bits as the whole block. */
void hil_block_square(const hil_block *block, double lane[HIL_SQUARES]);
/* The sum of a block's lanes, in order. */
double hil_lanes_add(const double lane[HIL_SQUARES]);

/* Elements [first, first + count) of a member of a unit, both multiples of HIL_CODEC_GROUP: a range
   may include the zeros that pad a member. `sum` and `out` point to element `first`, aligned to 16
   bytes. `lanes` and `square` point to the member's first block: lanes collect a block that several
   ranges share, and square gets the sum of its lanes, in order, when the block is complete. */
typedef struct hil_rounding_range {
    int64_t first, count;
    const float *sum;
    void *out;
    double *lanes, *square; /* NULL: no squares */
    bool last;              /* contains the member's last element */
} hil_rounding_range;
/* Number of blocks of the member that the range overlaps. */
static inline HIL_BOTH int64_t hil_rounding_range_blocks(const hil_rounding_range *range)
{
    return (range->first + range->count + HIL_BLOCK - 1) / HIL_BLOCK - range->first / HIL_BLOCK;
}

/* out = sum, rounded to the dtype, for every range. The rounded values are squared as by
   hil_block_square, block by block. In fp32 `out` may be `sum`; where it is NULL, the rounded
   values are only squared. */
#define HIL_ROUNDING_RANGES 64
typedef struct hil_rounding {
    hil_dtype dtype;
    int ranges;
    hil_rounding_range range[HIL_ROUNDING_RANGES];
} hil_rounding;
static inline int64_t hil_rounding_blocks(const hil_rounding *rounding)
{
    int64_t blocks = 0;
    for (int i = 0; i < rounding->ranges; ++i)
        blocks += hil_rounding_range_blocks(&rounding->range[i]);
    return blocks;
}
/* Rounds one block, on the CPU. */
void hil_rounding_run(const hil_rounding *rounding, int64_t block);

/* A gradient of any dtype that is added to its fp32 sum, or is the sum's first. */
typedef struct hil_addend {
    const void *gradient;
    hil_dtype dtype; /* fp32, bf16 or fp16 */
    bool first;      /* sum = gradient, otherwise sum += gradient */
    float *sum;
    int64_t count;
} hil_addend;
/* Adds elements [from, to), on the CPU. */
void hil_addend_run(const hil_addend *addend, int64_t from, int64_t to);

/* Blocks of an update that a device takes in one launch. */
#define HIL_UPDATE_BLOCKS 30

/* The same arithmetic queued on a device, with the same bits. Data is in device memory, except
   `shared` and `square`, which are in shared host memory; the structs are in host memory. */
typedef struct hil_device_math {
    hil_status (*round)(hil_device *device, hil_stream stream, const hil_rounding *rounding);
    /* Adds the squares of a block that begins at element `first` (a multiple of HIL_CODEC_GROUP) of
       its member: element i to lane[i / HIL_BLOCK][i % HIL_SQUARES]. */
    hil_status (*square)(hil_device *device, hil_stream stream, const hil_block *block,
                         int64_t first, double *lanes);
    /* shared[b] = the sum of the lanes of block b, in order. */
    hil_status (*squared)(hil_device *device, hil_stream stream, const double *lanes,
                          int64_t blocks, double *shared);
    /* The update rule of a step (optim/update.h) on blocks of any length, in few launches. */
    hil_status (*update)(hil_device *device, hil_stream stream, const void *rule,
                         const hil_block *block, int blocks);
    /* out = the sum over ranks of parts (ranks, out's elements), in fp32 in the order of ranks. */
    hil_status (*reduce)(hil_device *device, hil_stream stream, const hil_tensor *out,
                         const void *parts, int ranks);
    /* out = the numbers of a quantized tile, whose bytes are aligned to HIL_QUANT_ALIGN. */
    hil_status (*expand)(hil_device *device, hil_stream stream, const hil_quant_tile *tile,
                         const void *bytes, const hil_tensor *out);
    /* Draws numbers and quantizes them to nf4; codes and scales are in shared memory. */
    hil_status (*draw)(hil_device *device, hil_stream stream, const hil_quant_draw *draw);
    /* The gradient may be anywhere in the device's memory, aligned to its dtype. */
    hil_status (*add)(hil_device *device, hil_stream stream, const hil_addend *addend);
} hil_device_math;
static inline void hil_device_math_set(hil_device *device, const hil_device_math *math)
{
    hil_device_attach(device, "arithmetic of the store", math);
}
static inline const hil_device_math *hil_device_math_of(const hil_device *device)
{
    return (const hil_device_math *)hil_device_attached(device, "arithmetic of the store");
}

/* `reduce` and `expand` on the CPU. With a dry pool nothing is expanded. */
void hil_kernels_reduce(const hil_tensor *out, const void *parts, int ranks);
void hil_kernels_expand(hil_pool *pool, const hil_quant_tile *tile, const void *bytes,
                        const hil_tensor *out);

#endif
