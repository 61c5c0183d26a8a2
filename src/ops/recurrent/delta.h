/* delta.h - the gated delta rule on the CPU: [Note: gated delta rule] in ops.h. */
#ifndef HIL_OPS_RECURRENT_DELTA_H
#define HIL_OPS_RECURRENT_DELTA_H

#include "ops/ops.h"

#define HIL_DELTA_EPS 1e-6f /* added to the squared lengths of q and k */

/* The sizes of a call. K key_heads, H heads of values, D key_dim, V value_dim. */
typedef struct hil_delta {
    const hil_op_call *call;
    int64_t batch, length, key_heads, heads, key_dim, value_dim;
    int64_t width;        /* of a row of qkv */
    int64_t chunks;       /* of a sequence */
    const int32_t *first; /* NULL in generation */
    float *rate, *bias;   /* exp(A) and the bias, (H) each */
} hil_delta;

static inline int64_t hil_delta_chunks(int64_t length)
{
    return (length + HIL_DELTA_CHUNK - 1) / HIL_DELTA_CHUNK;
}

/* Of a head of values: where the numbers of its q, k and v are in a row of qkv. */
typedef struct hil_delta_columns {
    int64_t q, k, v;
} hil_delta_columns;
static inline hil_delta_columns hil_delta_columns_of(const hil_delta *d, int64_t head)
{
    int64_t group = head / (d->heads / d->key_heads), keys = d->key_heads * d->key_dim;
    return (hil_delta_columns){group * d->key_dim, keys + group * d->key_dim,
                               2 * keys + head * d->value_dim};
}

/* What one head of values computes with, for the positions of a chunk. */
typedef struct hil_delta_inputs {
    float *q, *k, *v;           /* (chunk, D), (chunk, D), (chunk, V); q and k are normalised */
    float *q_scale, *k_scale;   /* of each position: what q and k were multiplied by */
    float *beta, *keep, *slope; /* sigmoid of b, exp(g), the derivative of g by a */
    float *decay;               /* g */
} hil_delta_inputs;

/* Takes memory for them, or counts it if `memory` is NULL; *used are floats. */
void hil_delta_layout(const hil_delta *d, float *memory, int64_t *used, hil_delta_inputs *out);
float *hil_delta_take(float *memory, int64_t *used, int64_t count);
/* Reads positions [at, at + count) of sequence b. */
void hil_delta_read(const hil_delta *d, int64_t b, int64_t head, int64_t at, int64_t count,
                    const hil_delta_inputs *in);
/* Whether a document begins at position t, where the state is 0 before. */
static inline bool hil_delta_begins(const hil_delta *d, int64_t b, int64_t t)
{
    return d->first && d->first[b * d->length + t] == t;
}
/* One position: S becomes that after it, `change` is beta (v - S'k), `wrong` v - S'k. */
void hil_delta_step(const hil_delta *d, const hil_delta_inputs *in, int64_t i, float *state,
                    float *wrong, float *change);

/* *at: the scratch that is left. */
hil_status hil_delta_prepare(const hil_op_call *call, size_t *at, hil_delta *out);
hil_status hil_delta_backward(hil_op_call *call);

#endif
