/* narrow_cuda.h - both gradients of a product with a narrow weight, the B of an adapter: dy is read
   once for them, where two products would read it twice. */
#ifndef HIL_OPS_LINEAR_NARROW_CUDA_H
#define HIL_OPS_LINEAR_NARROW_CUDA_H

#include "ops/cuda_kernel.h"

/* y (rows x n) = x (rows x k) * w' with w (n x k), all of bf16 and contiguous. */
typedef struct hil_cuda_narrow {
    int64_t rows, n, k;
    const void *dy, *w, *x;
    void *scratch; /* hil_cuda_narrow_bytes */
} hil_cuda_narrow;

/* Whether this GPU computes the shape so: k is even and at most 16, rows and n are large multiples
   of 32 and 64. */
bool hil_cuda_narrow_suits(const hil_device *device, hil_dtype dtype, int64_t rows, int64_t n,
                           int64_t k);
size_t hil_cuda_narrow_bytes(int64_t rows, int64_t n);
/* y = base + x * w', both rows x n, bf16; dy and scratch are not used. */
hil_status hil_cuda_narrow_add(hil_device *device, const hil_cuda_narrow *job, const void *base,
                               void *y);
/* Partial sums of both gradients; then each of them, added up in a fixed order. */
hil_status hil_cuda_narrow_run(hil_device *device, const hil_cuda_narrow *job);
hil_status hil_cuda_narrow_input(hil_device *device, const hil_cuda_narrow *job, void *dx,
                                 bool add);
hil_status hil_cuda_narrow_weight(hil_device *device, const hil_cuda_narrow *job, float *sum,
                                  bool add);

/* `count` partial sums of a matrix, `size` numbers apart, in rows `stride` apart. */
typedef struct hil_cuda_parts {
    const float *part;
    int64_t count, size;
    int64_t rows, stride, cols;
    float factor;
    bool add;
} hil_cuda_parts;
/* out (rows x cols, fp32 or bf16) = their sum in order, times the factor, or added to it. */
hil_status hil_cuda_parts_sum(hil_device *device, hil_view out, const hil_cuda_parts *parts);

#endif
