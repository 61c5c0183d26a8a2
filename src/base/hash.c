/* hash.c - multiplies and rotates 8 bytes at a time; each step is invertible. */
#include "base/hash.h"

#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash ^= word * 0x9E3779B97F4A7C15u;
    hash = (hash << 29) | (hash >> 35);
    return hash * 0xD6E8FEB86659FD93u;
}

uint64_t hil_hash(uint64_t seed, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    uint64_t hash = mix(seed, size), word;
    for (; size >= 8; size -= 8, from += 8) {
        memcpy(&word, from, 8);
        hash = mix(hash, word);
    }
    if (size) {
        word = 0;
        memcpy(&word, from, size);
        hash = mix(hash, word);
    }
    hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93u;
    hash = (hash ^ (hash >> 32)) * 0xD6E8FEB86659FD93u;
    return hash ^ (hash >> 32);
}
