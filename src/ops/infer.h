/* infer.h - checks of shapes and dtypes that the operations' `infer` functions share. */
#ifndef HIL_OPS_INFER_H
#define HIL_OPS_INFER_H

#include "ops/op.h"

/* "(4, 512, 768)"; use it inside the expression that needs the text. */
typedef struct hil_shape_text {
    char text[96];
} hil_shape_text;
hil_shape_text hil_infer_shape_text(const hil_shape *shape);
hil_shape_text hil_infer_param_text(const hil_op_param *param);

/* in[i] holds floating-point numbers and has `ndim` dimensions (0: at least one). */
hil_status hil_infer_float(const hil_op_call *call, int i, int ndim);
/* in[i] holds one int32 for each of the first two dimensions of `like`. */
hil_status hil_infer_ids(const hil_op_call *call, int i, const hil_shape *like);
/* in[i] has the shape of in[0]. */
hil_status hil_infer_same(const hil_op_call *call, int i);
/* param[i] is a vector of `count` numbers. */
hil_status hil_infer_vector(const hil_op_call *call, int i, int64_t count);

/* Of products in 8 bits: in[0] and param[0] are bf16. */
hil_status hil_infer_fp8(const hil_op_call *call);

/* One output of this dtype and shape, nothing saved, no scratch. */
void hil_infer_out(hil_op_call *call, hil_dtype dtype, const hil_shape *shape);

/* Parts of a scratch block: each begins on a cache line. */
static inline size_t hil_scratch_add(size_t *bytes, int64_t count, size_t size)
{
    size_t at = *bytes;
    *bytes += ((size_t)count * size + 63) & ~(size_t)63;
    return at;
}

/* Copies a parameter to fp32, all tiles one below the other. */
hil_status hil_op_vector(const hil_op_call *call, int param, float *out);
/* The same in its dtype. */
hil_status hil_op_matrix(const hil_op_call *call, int param, void *out);
/* Adds `from`, of the matrix' shape, to its gradient. */
hil_status hil_op_give_matrix(const hil_op_call *call, int param, const float *from);
/* Adds up the gradients of vector parameters: partial[i] has those of each block of rows, blocks x
   cols, for parameter i; NULL: it is not wanted. */
hil_status hil_op_gather_vectors(const hil_op_call *call, float *const *partial, int64_t blocks,
                                 int64_t cols);

#endif
