/* cuda_philox.h - random words in a kernel: those of base/philox.h. */
#ifndef HIL_DEVICE_CUDA_PHILOX_H
#define HIL_DEVICE_CUDA_PHILOX_H

#include <stdint.h>

/* Philox4x32-10 (base/philox.h). */
static __device__ inline void hil_cuda_philox(uint64_t key, uint64_t low, uint64_t high,
                                              uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)low, c1 = (uint32_t)(low >> 32);
    uint32_t c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

#endif
