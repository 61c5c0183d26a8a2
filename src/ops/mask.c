/* mask.c - dropout masks: a pure function of (seed, step, sequence, site, element). */
#include "ops/mask.h"

#include "base/philox.h"
#include "ops/rows/rows.h"

#include <math.h>

hil_mask hil_mask_create(const hil_op_random *random, double rate)
{
    uint32_t word[4];
    hil_philox(random->seed, (uint64_t)random->step, HIL_PHILOX_DROPOUT | random->site, word);
    return (hil_mask){
        .key = (uint64_t)word[1] << 32 | word[0],
        .sequence = random->sequence,
        .dropped = (int32_t)ceil(rate * 0x1p24),
        .kept_factor = (float)(1 / (1 - rate)),
    };
}

#define BLOCKS 64

void hil_mask_fill(const hil_mask *mask, int64_t row, int64_t element, int64_t n, float *factor)
{
    uint64_t sequence = (uint64_t)(mask->sequence + row);
    uint32_t word[4 * BLOCKS];
    for (int64_t i = 0; i < n;) {
        int64_t skip = (element + i) % 4,
                part = 4 * BLOCKS - skip < n - i ? 4 * BLOCKS - skip : n - i;
        hil_rows()->random.philox(word, mask->key, (uint64_t)(element + i) / 4, sequence,
                                  (skip + part + 3) / 4);
        hil_rows()->random.keep(factor + i, word + skip, mask->dropped, mask->kept_factor, part);
        i += part;
    }
}
