/* hash.h - a 64-bit hash for checksums and cache keys; not for hostile collisions. */
#ifndef HIL_BASE_HASH_H
#define HIL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `seed` (any number; the hash of what came before). Bytes that differ inside one
   aligned group of 8 only never collide. */
uint64_t hil_hash(uint64_t seed, const void *bytes, size_t size);

#endif
