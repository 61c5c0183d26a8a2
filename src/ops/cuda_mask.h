/* cuda_mask.h - the factors of mask.h on a GPU: the same random numbers. */
#ifndef HIL_OPS_CUDA_MASK_H
#define HIL_OPS_CUDA_MASK_H

extern "C" {
#include "ops/mask.h"
}
#include "device/cuda_philox.h"

/* The factor for one random word. */
static __device__ inline float hil_mask_cuda_keep(const hil_mask &mask, uint32_t word)
{
    return (int32_t)(word >> 8) < mask.dropped ? 0.0f : mask.kept_factor;
}

/* The factor of one element of the sequence in batch row `row`. */
static __device__ inline float hil_mask_cuda_factor(const hil_mask &mask, int64_t row,
                                                    int64_t element)
{
    uint32_t word[4];
    hil_cuda_philox(mask.key, (uint64_t)element / 4, (uint64_t)(mask.sequence + row), word);
    uint32_t low = element & 1 ? word[1] : word[0], high = element & 1 ? word[3] : word[2];
    return hil_mask_cuda_keep(mask, element & 2 ? high : low);
}

#endif
