/* cuda_gradient.h - the gradients of a block in a kernel. */
#ifndef HIL_KERNELS_CUDA_GRADIENT_H
#define HIL_KERNELS_CUDA_GRADIENT_H

extern "C" {
#include "kernels/block.h"
}
#include "tensor/cuda_wide.h"

/* A gradient, or its sum, as fp32. */
static __device__ inline void hil_block_wide_read(const hil_block &b, const hil_wide &raw,
                                                  float g[HIL_WIDE])
{
    hil_wide_read(raw, b.sums ? HIL_F32 : b.dtype, g);
    if (!b.sums || b.dtype == HIL_F32) return;
    hil_wide rounded;
    hil_wide_round(g, b.dtype, rounded.word);
    hil_wide_read(rounded, b.dtype, g);
}

/* A thread has HIL_WIDE elements from `at`; n of them exist. */
static __device__ inline void hil_block_wide_gradient(const hil_block &b, int64_t at, int n,
                                                      float g[HIL_WIDE])
{
    hil_wide raw[HIL_USES];
    const hil_dtype stored = b.sums ? HIL_F32 : b.dtype;
#pragma unroll
    for (int u = 0; u < HIL_USES; ++u)
        if (u < b.gradients)
            raw[u] = hil_wide_load({(void *)(uintptr_t)b.gradient[u], stored}, at, n);
    hil_block_wide_read(b, raw[0], g);
#pragma unroll
    for (int u = 1; u < HIL_USES; ++u) {
        if (u >= b.gradients) break;
        float more[HIL_WIDE];
        hil_block_wide_read(b, raw[u], more);
#pragma unroll
        for (int i = 0; i < HIL_WIDE; ++i) g[i] += more[i];
    }
}

#endif
