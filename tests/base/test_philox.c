/* Philox4x32-10 gives the published known answers; permutations contain every index once. */
#include "base/philox.h"
#include "check.h"

int main(void)
{
    static const struct {
        uint64_t key, low, high;
        uint32_t out[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822,
         0x85a308d3243f6a88,
         0x0370734413198a2e,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < 3; ++i) {
        uint32_t out[4];
        hil_philox(known[i].key, known[i].low, known[i].high, out);
        for (int k = 0; k < 4; ++k) CHECK_INT(out[k], known[i].out[k]);
    }

    static unsigned char seen[4099];
    for (uint64_t count = 1; count < 4099; count = count * 2 + 3) {
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < count; ++i) {
            uint64_t at = hil_philox_permute(7, count, i);
            CHECK(at < count);
            CHECK_INT(seen[at]++, 0);
        }
    }
    return 0;
}
