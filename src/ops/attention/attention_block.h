/* attention_block.h - products of packed blocks, shared by forward and backward of attention. */
#ifndef HIL_OPS_ATTENTION_ATTENTION_BLOCK_H
#define HIL_OPS_ATTENTION_ATTENTION_BLOCK_H

#include "ops/attention/attention_kernel.h"
#include "ops/linear/gemm_kernel.h"

/* Rows of queries in a block over all heads of a group, and keys in a block: multiples of every
   kernel's k_unit, nearly multiples of its tile. */
#define HIL_ATTENTION_ROWS 96
#define HIL_ATTENTION_KEYS 96

/* A matrix of fp32 results in whole tiles. */
typedef struct hil_attention_block {
    const hil_gemm_kernel *kernel;
    int64_t rows, columns, depth; /* not padded */
    bool a_by_rows;
    const float *a, *b; /* packed */
    float *c;           /* rows and columns padded to whole tiles */
    int64_t stride;
    bool add;
} hil_attention_block;
void hil_attention_block_multiply(const hil_attention_block *block);

/* `count` padded to whole tiles. */
int64_t hil_attention_block_whole(int64_t count, int width);

/* Element 0 of a head's row in x (B, T, heads, D) whose rows are `stride` numbers apart. */
static inline int64_t hil_attention_at(const hil_attention *a, int64_t stride, int64_t row,
                                       int64_t head)
{
    return row * stride + head * a->dim;
}

/* The stride of out and dout. */
static inline int64_t hil_attention_out_stride(const hil_attention *a)
{
    return a->heads * a->dim;
}

/* The first key that query t of sequence b sees. */
int64_t hil_attention_from(const hil_attention *a, int64_t b, int64_t t);

/* One head's vector as fp32 times `factor`. */
void hil_attention_read(const hil_attention *a, const hil_tensor *x, int64_t at, float factor,
                        float *out);

/* A block of keys or values from element `at`: keys as columns (scores), or D as columns. */
hil_strip hil_attention_scores_strip(const hil_attention *a, const hil_tensor *x, int64_t at,
                                     int64_t keys);
hil_strip hil_attention_sums_strip(const hil_attention *a, const hil_tensor *x, int64_t at,
                                   int64_t keys);

/* The next `count` floats of `memory`, 64-byte aligned; NULL when only *used is wanted. */
static inline float *hil_attention_block_take(float *memory, int64_t *used, int64_t count)
{
    float *taken = memory ? memory + *used : NULL;
    *used += (count + 15) / 16 * 16;
    return taken;
}

#endif
