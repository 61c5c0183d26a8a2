/* fuzz_snappy.c - any bytes as a Snappy block: exactly as many bytes as asked for, or refused. */
#include "format/parquet/snappy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { MOST = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    size_t said = 0;
    for (size_t i = 0; i < size && i < 5; ++i) {
        said |= (size_t)(bytes[i] & 0x7f) << (7 * i);
        if (!(bytes[i] & 0x80)) break;
    }
    if (said > MOST) said = MOST;
    unsigned char *out = malloc(said), *again = malloc(said);
    if (!out || !again) __builtin_trap();
    memset(out, 1, said);
    memset(again, 2, said);
    bool taken = hil_snappy_decode(bytes, size, out, said);
    if (taken != hil_snappy_decode(bytes, size, again, said)) __builtin_trap();
    if (taken && memcmp(out, again, said) != 0) __builtin_trap(); /* a byte that nobody wrote */
    free(out);
    free(again);
    return 0;
}
