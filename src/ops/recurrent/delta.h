/* delta.h - the gated delta rule on the CPU: [Note: gated delta rule] in ops.h; and state space
   layers, which are the same without its correction: [Note: state space]. There B, C and x are k, q
   and v, which stay as they are, and beta is dt. */
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
    float *skip;          /* D, (H), of a state space; else NULL */
    int64_t decays;       /* numbers of g of a head: D of channel_delta, else 1 */
    float write;          /* a factor of beta; 1 but for the gated delta rule */
    float floor;          /* of g, in channel_delta; 0: none */
} hil_delta;

/* Of state spaces, in training and in generation. */
static inline bool hil_delta_is_space(const hil_op_call *call)
{
    return call->op == &hil_op_state_space || call->op == &hil_op_state_space_cached;
}

/* Whether each channel of a key has a decay of its own. */
static inline bool hil_delta_by_channel(const hil_op_call *call)
{
    return call->op == &hil_op_channel_delta || call->op == &hil_op_channel_delta_cached;
}

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
    int64_t values = d->heads * d->value_dim, key = group * d->key_dim;
    if (d->skip) return (hil_delta_columns){values + keys + key, values + key, head * d->value_dim};
    return (hil_delta_columns){key, keys + key, 2 * keys + head * d->value_dim};
}

/* What one head of values computes with, for the positions of a chunk. */
typedef struct hil_delta_inputs {
    float *q, *k, *v;           /* (chunk, D), (chunk, D), (chunk, V); q and k are normalised */
    float *q_scale, *k_scale;   /* of each position: what q and k were multiplied by */
    float *beta, *keep, *slope; /* as in ops.h, exp(g), the derivative of g by a */
    float *decay;               /* g; in a state space -exp(A) dt, `slope` is that of dt by t */
    /* In channel_delta keep, slope and decay have D numbers of each position; decay is then the
       derivative of g by A. */
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
/* One position: S becomes that after it, `change` is beta (v - S'k), `wrong` v - S'k; in a state
   space beta v and v. */
void hil_delta_step(const hil_delta *d, const hil_delta_inputs *in, int64_t i, float *state,
                    float *wrong, float *change);

/* In channel_delta: `out`, which may be `state`, is the state times exp(g) of position i. */
void hil_delta_decay(const hil_delta *d, const hil_delta_inputs *in, int64_t i, const float *state,
                     float *out);

/* infer of both, after their own checks of inputs and parameters. */
hil_status hil_delta_infer(hil_op_call *call);
hil_status hil_delta_forward(hil_op_call *call);
/* Heads of a group are differentiated in so many parts at once, whose gradients of q and k are then
   added in their order; those of the delta rule in one. */
#define HIL_DELTA_PARTS 8
static inline int64_t hil_delta_parts(const hil_op_call *call, int64_t share)
{
    if (!hil_delta_is_space(call)) return 1;
    return share < HIL_DELTA_PARTS ? share : HIL_DELTA_PARTS;
}

/* *at: the scratch that is left. */
hil_status hil_delta_prepare(const hil_op_call *call, size_t *at, hil_delta *out);
hil_status hil_delta_backward(hil_op_call *call);

#endif
