/* The hash depends on every byte and on the size. */
#include "check.h"

#include "base/hash.h"

int main(void)
{
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = (unsigned char)(i * 37 + i / 5);
    uint64_t whole = hil_hash(0, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] ^= 1;
        CHECK(hil_hash(0, bytes, sizeof bytes) != whole);
        bytes[i] ^= 1;
    }
    for (size_t size = 1; size < 70; ++size) {
        unsigned char zeros[70] = {0};
        CHECK(hil_hash(0, zeros, size) != hil_hash(0, zeros, size - 1));
    }
    return 0;
}
