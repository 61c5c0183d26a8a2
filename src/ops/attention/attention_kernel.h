/* attention_kernel.h - causal attention with grouped heads, in blocks of queries and keys.

   [Note: blocks of attention] The score matrix never exists as a whole, only the scores of one
   block of queries with one block of keys. Forward keeps a running maximum and sum per query
   (online softmax) and saves log(sum(exp(scores))), from which backward recomputes the
   probabilities. Blocks have a fixed grid and are added in order, and one task owns each result, so
   no sum depends on threads. All arithmetic is fp32. */
#ifndef HIL_OPS_ATTENTION_ATTENTION_KERNEL_H
#define HIL_OPS_ATTENTION_ATTENTION_KERNEL_H

#include "base/pool.h"
#include "ops/mask.h"
#include "tensor/tensor.h"

/* Query t of a sequence is at position past + t and sees keys first[t]..past + t, and only the
   last `window` of them when window > 0, and with chunk > 0 only those of its own chunk of so many
   keys from first[t] on. first never decreases with t. Tensors are fp32, bf16 or fp16; their
   shapes are not read. */
typedef struct hil_attention {
    int64_t batch, queries, heads, groups, dim; /* B, T, H, KV, D; KV divides H */
    int64_t past;                               /* keys before the first query */
    int64_t capacity;                           /* rows of k and v for each sequence */
    hil_tensor q;                               /* (B, T, H, D) */
    hil_tensor k, v;                            /* (B, capacity, KV, D) */
    int64_t q_stride, kv_stride;                /* numbers from one position to the next */
    const int32_t *first;                       /* (B, T), or NULL for zeros */
    int64_t window, chunk;
    float scale;
    float cap;          /* scores become cap * tanh(score / cap); 0: as they are */
    const float *sinks; /* (H): the score of one more key, whose value is 0; NULL: there is none */
    const hil_mask *mask; /* dropout of the probabilities, or NULL */
    hil_tensor out;       /* (B, T, H, D): written by forward, read by backward */
    float *lse;           /* (B, H, T): likewise; NULL if no backward follows */
} hil_attention;

/* Gradients, overwritten or added to, with the strides of q, k and v; data is NULL if one is not
   wanted. For past = 0. */
typedef struct hil_attention_gradients {
    hil_tensor dout;
    hil_tensor dq, dk, dv;
    bool add_dq, add_dk, add_dv;
    float *dsinks; /* (B, H), overwritten: of each sequence; NULL: not wanted */
} hil_attention_gradients;

/* Fail only when the pool's scratch memory must grow and cannot. */
hil_status hil_attention_forward(hil_pool *pool, const hil_attention *a);
hil_status hil_attention_backward(hil_pool *pool, const hil_attention *a,
                                  const hil_attention_gradients *g);

#endif
