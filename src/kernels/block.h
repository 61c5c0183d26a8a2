/* block.h - consecutive elements of one parameter with its states: what update rules, rounding and
   the gradient norm work on. */
#ifndef HIL_KERNELS_BLOCK_H
#define HIL_KERNELS_BLOCK_H

#include "tensor/q8.h"
#include "tensor/tensor.h"

/* How moments are kept. HIL_CODEC_Q8: groups of HIL_CODEC_GROUP elements, the last of a run a whole
   one; the first moment has a sign, the second none; see [Note: q8]. */
#define HIL_CODEC_GROUP HIL_Q8_GROUP
typedef enum hil_codec { HIL_CODEC_F32, HIL_CODEC_Q8 } hil_codec;
static inline size_t hil_codec_bytes(hil_codec codec, int64_t count)
{
    if (codec == HIL_CODEC_F32) return (size_t)count * 4;
    return (size_t)((count + HIL_CODEC_GROUP - 1) / HIL_CODEC_GROUP) * HIL_Q8_GROUP_BYTES;
}

/* Bytes of the part of fp32 masters that is not in the weights; see hil_block. */
static inline size_t hil_rest_bytes(hil_dtype dtype, int64_t count)
{
    return (size_t)count * (dtype == HIL_BF16 ? 2 : dtype == HIL_F16 ? 4 : 0);
}

/* What an update rule works on: consecutive elements of one parameter, from a multiple of
   HIL_CODEC_GROUP on. The sums of the norm run over blocks of HIL_BLOCK elements, counted from the
   start of each tile: they are the same for every placement. */
#define HIL_BLOCK 16384
#define HIL_USES 4
#define HIL_MOMENTS 2
/* What the rule does with a block: [Note: matrix scope] in store/sweep_matrix.c, and
   [Note: late moments] in store/sweep.c. */
typedef enum hil_block_scope {
    HIL_SCOPE_ELEMENTS, /* updates each element by itself */
    HIL_SCOPE_MOMENTUM, /* before a matrix is updated: updates its momentum; Nesterov's momentum
                           takes the place of the first gradient */
    HIL_SCOPE_MATRIX,   /* subtracts the first gradient: what became of that as a whole matrix */
    HIL_SCOPE_WEIGHTS,  /* ELEMENTS, but the moments stay as they are: [Note: late moments] */
    HIL_SCOPE_MOMENTS,  /* updates only the moments, after HIL_SCOPE_WEIGHTS */
} hil_block_scope;
typedef struct hil_block {
    int64_t count;
    hil_dtype dtype;
    int numbers;  /* which of the update's numbers apply: see hil_param_set_numbers */
    void *weight; /* dtype; with fp32 it is the master itself */
    void *rest; /* what the weight lacks of the master. bf16: its low 16 bits; fp16: all of its 32,
                   of which the weight is the rounding to nearest even; fp32: NULL */
    void *moment[HIL_MOMENTS];      /* in the store's codec */
    const void *gradient[HIL_USES]; /* dtype; to be added in this order in fp32 */
    bool sums;     /* the gradients are fp32 sums: each is rounded to dtype when it is read */
    int gradients; /* 0: no gradient was given in this step */
    hil_block_scope scope;
} hil_block;

#define HIL_SQUARES 256 /* lanes of a sum of squares */

#endif
