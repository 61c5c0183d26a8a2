/* attention_parts.h - finds q, k and v of a call: three inputs, or packed in one. */
#ifndef HIL_OPS_ATTENTION_ATTENTION_PARTS_H
#define HIL_OPS_ATTENTION_ATTENTION_PARTS_H

#include "ops/op.h"

typedef struct hil_attention_parts {
    hil_tensor q, k, v;          /* shapes are those without gaps */
    int64_t q_stride, kv_stride; /* numbers from one position to the next */
} hil_attention_parts;

/* Whether in[0] holds all three. */
static inline bool hil_attention_is_packed(const hil_op_call *call)
{
    return call->ins < 3;
}

static inline hil_tensor hil_attention_third(const hil_tensor *x, int i)
{
    hil_tensor part = *x;
    part.shape.dim[2] /= 3;
    size_t bytes = (size_t)(part.shape.dim[2] * part.shape.dim[3]) * hil_dtype_size(x->dtype);
    if (x->data) part.data = (char *)x->data + (size_t)i * bytes;
    return part;
}

/* `x` is the call's in, or its din. */
static inline hil_attention_parts hil_attention_parts_of(const hil_op_call *call,
                                                         const hil_tensor *x)
{
    hil_attention_parts parts;
    bool packed = hil_attention_is_packed(call);
    parts.q = packed ? hil_attention_third(x, 0) : x[0];
    parts.k = packed ? hil_attention_third(x, 1) : x[1];
    parts.v = packed ? hil_attention_third(x, 2) : x[2];
    const int64_t *q = x[0].shape.dim, *kv = x[packed ? 0 : 1].shape.dim;
    parts.q_stride = q[2] * q[3];
    parts.kv_stride = kv[2] * kv[3];
    return parts;
}

#endif
