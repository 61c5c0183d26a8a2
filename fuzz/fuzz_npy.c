/* fuzz_npy.c - any bytes as a .npy file: parsed or refused, and every element readable. */
#include "format/npy.h"
#include "mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
FUZZ_MUTATOR(mutate_npy)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hil_npy *npy;
    if (hil_npy_parse(&npy, (const char *)bytes, size, "input") != HIL_OK) return 0;
    for (int64_t i = 0; i < hil_npy_count(npy); ++i) {
        int32_t id = 0;
        if (hil_npy_read(npy, i, 1, 50000, &id) == HIL_OK) assert(id >= 0 && id < 50000);
    }
    hil_npy_close(npy);
    return 0;
}
