/* hash.h - a 64-bit hash for checksums and cache keys; not cryptographic. */
#ifndef HIL_BASE_HASH_H
#define HIL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `seed` (any number, or the hash of preceding bytes). Inputs that differ within one
   aligned group of 8 bytes only never collide. */
uint64_t hil_hash(uint64_t seed, const void *bytes, size_t size);

#endif
