/* philox.c - Philox4x32-10 and permutations made of its words. */
#include "base/philox.h"

#include <assert.h>

void hil_philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)low, c1 = (uint32_t)(low >> 32);
    uint32_t c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
    for (int round = 0; round < 10; ++round) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* A four-round Feistel network over the next even power of two, repeated until the result is below
   `count`. */
uint64_t hil_philox_permute(uint64_t key, uint64_t count, uint64_t index)
{
    assert(index < count);
    unsigned half = 1;
    while (half < 32 && (1ull << (2 * half)) < count) ++half;
    uint64_t mask = (1ull << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < 4; ++round) {
            uint32_t word[4];
            hil_philox(key, right, round, word);
            uint64_t mixed = left ^ ((((uint64_t)word[1] << 32) | word[0]) & mask);
            left = right;
            right = mixed;
        }
        index = (left << half) | right;
    } while (index >= count);
    return index;
}
