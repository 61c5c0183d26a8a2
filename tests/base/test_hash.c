/* A hash in pieces is the hash of the whole; every byte counts. */
#include "check.h"

#include "base/hash.h"

int main(void)
{
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = (unsigned char)(i * 37 + i / 5);
    for (size_t size = 0; size < 70; ++size)
        for (size_t piece = 8; piece <= 64; piece += 8) {
            uint64_t hash = hil_hash_begin(size, size);
            for (size_t at = 0; at < size; at += piece)
                hash = hil_hash_add(hash, bytes + at, size - at < piece ? size - at : piece);
            CHECK(hil_hash_end(hash) == hil_hash(size, bytes, size));
        }
    uint64_t whole = hil_hash(0, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] ^= 1;
        CHECK(hil_hash(0, bytes, sizeof bytes) != whole);
        bytes[i] ^= 1;
    }
    return 0;
}
