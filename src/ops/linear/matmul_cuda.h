/* matmul_cuda.h - the matrix product on a GPU, through cuBLASLt. */
#ifndef HIL_OPS_LINEAR_MATMUL_CUDA_H
#define HIL_OPS_LINEAR_MATMUL_CUDA_H

#include "ops/cuda_kernel.h"

/* A matrix in memory, rows `stride` apart; `transposed`: the memory has its transpose. */
typedef struct hil_cuda_matrix {
    const void *data;
    int64_t stride;
    bool transposed;
} hil_cuda_matrix;

/* c (m x n, row-major) = a (m x k) * b (k x n) + bias, summed in fp32 and rounded once; with `add`
   the product is added to what c holds, with `base` to that matrix. a and b have the same dtype;
   fp32 is fp32, never TF32. Codes of 8 bits (HIL_E4M3) are multiplied by the scales of a and b; b
   is transposed, a is not, and all sides are multiples of HIL_OPERAND_MULTIPLE.

   [Note: algorithms by rule] The algorithm is the first one that cuBLASLt's heuristics return for
   the shape, the dtypes and alignments of up to 16 bytes, with a workspace of fixed size and no
   sums in 16 bits; it is chosen once per shape and device, so it does not depend on addresses. On
   Hopper, if there are many waves of tiles, the first of eight that has small tiles is taken: such
   kernels write a tile while they compute the next. Under sustained load they are up to a third
   faster where sums are short, most if c is read or in fp32, and 3 to 10% where they are long. */
typedef struct hil_cuda_matmul {
    int64_t m, n, k;
    hil_dtype dtype; /* of a and b */
    hil_cuda_matrix a, b;
    void *c;
    hil_dtype c_dtype;
    int64_t c_stride;
    const void *bias; /* n numbers of c_dtype, added to every row; NULL for none */
    bool add;
    const void *base; /* m x n, of c's dtype and stride; NULL for none, or with `add` */
    const float *a_scale, *b_scale; /* of codes of 8 bits, in the device's memory */
    bool a_e5m2;                    /* the codes of a are e5m2 */
} hil_cuda_matmul;

hil_status hil_cuda_matmul_run(hil_device *device, const hil_cuda_matmul *matmul);

#endif
