/* cuda_gradient.h - the gradients of a block in a kernel. */
#ifndef HIL_KERNELS_CUDA_GRADIENT_H
#define HIL_KERNELS_CUDA_GRADIENT_H

extern "C" {
#include "kernels/block.h"
}
#include "tensor/cuda_wide.h"

/* A thread has HIL_WIDE elements from `at`; n of them exist. */
static __device__ inline void hil_block_wide_gradient(const hil_block &b, int64_t at, int n,
                                                      float g[HIL_WIDE])
{
    hil_wide raw[HIL_USES];
#pragma unroll
    for (int u = 0; u < HIL_USES; ++u)
        if (u < b.gradients)
            raw[u] = hil_wide_load({(void *)(uintptr_t)b.gradient[u], b.dtype}, at, n);
    hil_wide_read(raw[0], b.dtype, g);
#pragma unroll
    for (int u = 1; u < HIL_USES; ++u) {
        if (u >= b.gradients) break;
        float more[HIL_WIDE];
        hil_wide_read(raw[u], b.dtype, more);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) g[i] += more[i];
    }
}

#endif
