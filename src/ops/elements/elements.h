/* elements.h - element-wise operations, in pieces that fit the cache. */
#ifndef HIL_OPS_ELEMENTS_ELEMENTS_H
#define HIL_OPS_ELEMENTS_ELEMENTS_H

#include "ops/op.h"

#define HIL_PIECE 1024                     /* elements per call of a function, at most */
#define HIL_ELEMENTS_TASK (16 * HIL_PIECE) /* elements of one task of the pool */

typedef struct hil_elements hil_elements;

/* Computes out[][n] from in[][n], fp32, for elements [at, at + n). */
typedef void hil_elements_fn(const hil_elements *job, int64_t at, int64_t n, const float *const *in,
                             float *const *out);

/* Tensors of `count` elements each, of any float dtypes. An output without data is not stored; an
   output may be an input's memory if the dtypes are equal. */
struct hil_elements {
    hil_elements_fn *piece;
    const hil_op_call *call;
    int64_t count;
    int ins, outs;
    hil_tensor in[3];
    hil_tensor out[2];
    bool add[2];
};
void hil_elements_run(const hil_elements *job);

/* The rest of a hil_op whose file has `forward` and `backward`: with one input, or with two. */
#define HIL_ELEMENTS_SINGLE_OP                                                                     \
    .keep_in = 1, .reuse = 1, .cheap = true, .infer = hil_elements_single_infer,                   \
    .forward = forward, .backward = backward
#define HIL_ELEMENTS_PAIR_OP                                                                       \
    .keep_in = 3, .reuse = 1, .cheap = true, .infer = hil_elements_pair_infer, .forward = forward, \
    .backward = backward

/* Operations with one input and one output of its shape. `back` gets x and dy. */
hil_status hil_elements_single_infer(hil_op_call *call);
hil_status hil_elements_single_run(hil_op_call *call, hil_elements_fn *piece);
hil_status hil_elements_single_back(hil_op_call *call, hil_elements_fn *piece);

/* Operations with two inputs and one output, all of the same shape. `back` gets x, y and the
   gradient, and computes those of x and y. */
hil_status hil_elements_pair_infer(hil_op_call *call);
hil_status hil_elements_pair_run(hil_op_call *call, hil_elements_fn *piece);
hil_status hil_elements_pair_back(hil_op_call *call, hil_elements_fn *piece);

#endif
