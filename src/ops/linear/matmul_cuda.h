/* matmul_cuda.h - the matrix product on a GPU, through cuBLASLt. */
#ifndef HIL_OPS_LINEAR_MATMUL_CUDA_H
#define HIL_OPS_LINEAR_MATMUL_CUDA_H

#include "ops/cuda_kernel.h"

/* A matrix as it lies in memory, rows `stride` apart; `transposed`: it holds the transpose. */
typedef struct hil_cuda_matrix {
    const void *data;
    int64_t stride;
    bool transposed;
} hil_cuda_matrix;

/* c (m x n, row-major) = a (m x k) * b (k x n) + bias, summed in fp32 and rounded once; with `add`
   the product is added to what c holds, with `base` to that matrix. a and b have the same dtype;
   fp32 is fp32, never TF32.

   [Note: algorithms by rule] The first algorithm that cuBLASLt's heuristics name for the shape, the
   dtypes and alignments of up to 16 bytes, in a workspace of fixed size and without sums in 16
   bits, made once per device. So it does not depend on where the matrices lie. On Hopper, of the
   first eight one with small tiles comes before where these make many waves and sums are short:
   such kernels write a tile while they compute the next. Under sustained load they are up to a
   third faster, most where c is read or in fp32. */
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
} hil_cuda_matmul;

hil_status hil_cuda_matmul_run(hil_device *device, const hil_cuda_matmul *matmul);

#endif
