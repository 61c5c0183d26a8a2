/* philox.h - Philox4x32-10: random numbers as a pure function of (key, counter). */
#ifndef HIL_BASE_PHILOX_H
#define HIL_BASE_PHILOX_H

#include <stdint.h>

/* [Note: random streams] The top bits of `high` separate the users of one seed: initialisation (low
   bits: the parameter's number), dropout (low bits: the site), the order of an epoch, sampling. */
#define HIL_PHILOX_DROPOUT ((uint64_t)1 << 48)
#define HIL_PHILOX_ORDER ((uint64_t)2 << 48)
#define HIL_PHILOX_SAMPLE ((uint64_t)3 << 48)

/* Four 32-bit words for the 64-bit key and the 128-bit counter (low, high). */
void hil_philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4]);

/* A float in [0, 1) with 24 random bits. */
static inline float hil_philox_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* The image of `index` under a pseudo-random permutation of [0, count). */
uint64_t hil_philox_permute(uint64_t key, uint64_t count, uint64_t index);

#endif
