/* gemm.h - the matrix product on the CPU. */
#ifndef HIL_OPS_LINEAR_GEMM_H
#define HIL_OPS_LINEAR_GEMM_H

#include "base/pool.h"
#include "tensor/tensor.h"

/* Borrows `data`. Element (i, j) is data[i * row_stride + j * col_stride]; one stride is 1, so that
   a matrix and its transpose are both described. fp32, bf16 or fp16. */
typedef struct hil_matrix {
    const void *data;
    hil_dtype dtype;
    int64_t row_stride;
    int64_t col_stride;
} hil_matrix;

/* c (m x n, row-major, rows c_stride apart) = a (m x k) * b (k x n) + bias, summed in fp32 and
   rounded once. With `add` the product is added to what c holds, with `base` to that matrix. c does
   not overlap the inputs.

   [Note: order of the sums] Every element of c is computed by the same operations in the same
   order, for any m, n, number of threads and addresses: the blocks of k depend on its length only,
   a block is one chain of multiply-adds from zero, and blocks are added in order. So cutting a
   product by rows or columns into several calls gives the same bits. The exception is the product
   of few rows (m up to 8 with k contiguous in b, as in decoding), which sums in another order:
   there, too, the columns may be cut, but rows only within that limit. */
typedef struct hil_gemm {
    int64_t m, n, k;
    hil_matrix a, b;
    void *c;
    hil_dtype c_dtype;
    int64_t c_stride;
    const void *bias; /* n numbers, added to every row; NULL for none */
    hil_dtype bias_dtype;
    bool add;
    const void *base; /* m x n, of c's dtype and stride; NULL for none, or with `add` */
} hil_gemm;

/* Fails only when the pool's scratch memory must grow and cannot. */
hil_status hil_gemm_run(hil_pool *pool, const hil_gemm *gemm);

/* How threads share a product, to estimate its time. */
typedef struct hil_gemm_division {
    double runs;    /* of the pool, with more than one task */
    double stretch; /* multiplications of the busiest thread, padding included, times threads, over
                       those of the product: 1 at best */
    double packs_a, packs_b; /* the same for the numbers of A and B that are packed; 0: none are */
} hil_gemm_division;
/* Reads the sizes, dtypes and strides of `gemm`, but no data. */
void hil_gemm_divide(const hil_gemm *gemm, int threads, hil_gemm_division *out);

/* The matrix with rows of `cols` contiguous numbers, and its transpose. */
static inline hil_matrix hil_matrix_rows(const void *data, hil_dtype dtype, int64_t cols)
{
    return (hil_matrix){data, dtype, cols, 1};
}
static inline hil_matrix hil_matrix_transpose(hil_matrix m)
{
    return (hil_matrix){m.data, m.dtype, m.col_stride, m.row_stride};
}

#endif
