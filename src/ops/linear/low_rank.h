/* low_rank.h - the parts of a low-rank product that CPU and GPU share. */
#ifndef HIL_OPS_LINEAR_LOW_RANK_H
#define HIL_OPS_LINEAR_LOW_RANK_H

#include "ops/infer.h"

/* The matrices stand one below the other in `joined` (width x k), so that x is read once for all of
   them. Column first[i] of a joined product is where that of matrix i begins. */
typedef struct hil_low_rank {
    int64_t rows, k, width, first[HIL_OP_PARAMS + 1];
    char *joined;
    float *product; /* forward: x * joined' (rows x width); backward: the gradient of `joined` */
    char *scaled;   /* backward: the scaled gradients of the results (rows x width), fp32
                       or on a GPU of x's dtype */
    size_t bytes;   /* of scratch */
} hil_low_rank;

static inline hil_low_rank hil_low_rank_of(const hil_op_call *call, bool backward)
{
    hil_low_rank l = {0};
    char *scratch = (char *)call->scratch;
    size_t size = hil_dtype_size(call->param[0].dtype);
    l.rows = hil_shape_rows(&call->in[0].shape);
    l.k = call->param[0].cols;
    l.width = 0;
    for (int i = 0; i < call->params; ++i) {
        l.first[i] = l.width;
        l.width += call->param[i].rows;
    }
    l.first[call->params] = l.width;
    l.bytes = 0;
    size_t joined = hil_scratch_add(&l.bytes, l.width * l.k, size);
    int64_t numbers = backward ? l.width * l.k : l.rows * l.width;
    size_t product = hil_scratch_add(&l.bytes, numbers, sizeof(float));
    size_t scaled = backward ? hil_scratch_add(&l.bytes, l.rows * l.width, sizeof(float)) : 0;
    if (!scratch) return l; /* only the bytes are asked for */
    l.joined = scratch + joined;
    l.product = (float *)(scratch + product);
    l.scaled = scratch + scaled;
    return l;
}

static inline bool hil_low_rank_trains(const hil_op_call *call)
{
    for (int i = 0; i < call->params; ++i)
        if (call->param[i].trainable) return true;
    return false;
}

#endif
