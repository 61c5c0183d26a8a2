/* attention_block.c - products of packed blocks. */
#include "ops/attention/attention_block.h"

#include "ops/rows/rows.h"

int64_t hil_attention_block_whole(int64_t count, int width)
{
    return (count + width - 1) / width * width;
}

void hil_attention_block_multiply(const hil_attention_block *block)
{
    const hil_gemm_kernel *kernel = block->kernel;
    int mr = kernel->mr, nr = kernel->nr;
    int64_t depth = hil_attention_block_whole(block->depth, kernel->k_unit);
    for (int64_t j = 0; j < block->columns; j += nr)
        for (int64_t i = 0; i < block->rows; i += mr) {
            float *c = block->c + i * block->stride + j;
            kernel->tile(&(hil_tile){.a = block->a + i * depth,
                                     .b = block->b + j * depth,
                                     .a_by_rows = block->a_by_rows,
                                     .depth = depth,
                                     .c = c,
                                     .c_stride = block->stride,
                                     .base = block->add ? c : NULL});
        }
}

int64_t hil_attention_from(const hil_attention *a, int64_t b, int64_t t)
{
    int64_t from = a->first ? a->first[b * a->queries + t] : 0;
    int64_t seen = a->past + t + 1;
    if (a->chunk > 0) from += (seen - 1 - from) / a->chunk * a->chunk;
    int64_t window = a->window > 0 && seen > a->window ? seen - a->window : 0;
    return from > window ? from : window;
}

void hil_attention_read(const hil_attention *a, const hil_tensor *x, int64_t at, float factor,
                        float *out)
{
    hil_rows()->math.scale(out, hil_row_read(x, at, a->dim, out), factor, a->dim);
}

static const void *element(const hil_tensor *x, int64_t at)
{
    return (const char *)x->data + (size_t)at * hil_dtype_size(x->dtype);
}

hil_strip hil_attention_scores_strip(const hil_attention *a, const hil_tensor *x, int64_t at,
                                     int64_t keys)
{
    return (hil_strip){element(x, at), x->dtype, a->kv_stride, 1, keys, a->dim};
}

hil_strip hil_attention_sums_strip(const hil_attention *a, const hil_tensor *x, int64_t at,
                                   int64_t keys)
{
    return (hil_strip){element(x, at), x->dtype, 1, a->kv_stride, a->dim, keys};
}
