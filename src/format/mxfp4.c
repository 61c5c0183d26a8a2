/* mxfp4.c - numbers of 4 bits, of which 32 share a power of two: read and expanded. */
#include "format/mxfp4.h"

#include <math.h>
#include <string.h>

enum { BYTES = HIL_MXFP4_GROUP / 2, RUN = 128 }; /* of a group; groups read at once */

bool hil_mxfp4_fits(const hil_entry *blocks, const hil_entry *scales, int64_t experts)
{
    if (!scales || strcmp(blocks->dtype, "U8") != 0 || strcmp(scales->dtype, "U8") != 0 ||
        blocks->ndim != 4 || scales->ndim != 3 || blocks->dim[0] != experts ||
        blocks->dim[3] != BYTES)
        return false;
    for (int i = 0; i < 3; ++i)
        if (blocks->dim[i] != scales->dim[i]) return false;
    return true;
}

static void expand(const unsigned char *codes, const unsigned char *scales, int64_t groups,
                   uint16_t *out)
{
    static const float table[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float number[HIL_MXFP4_GROUP];
    for (int64_t g = 0; g < groups; ++g) {
        for (int i = 0; i < HIL_MXFP4_GROUP; ++i) {
            int code = codes[g * BYTES + i / 2] >> (i % 2 ? 4 : 0) & 15;
            number[i] = ldexpf(code & 8 ? -table[code & 7] : table[code & 7], scales[g] - 127);
        }
        hil_dtype_from_f32(out + g * HIL_MXFP4_GROUP, number, HIL_BF16, HIL_MXFP4_GROUP);
    }
}

hil_status hil_mxfp4_read(const hil_mxfp4 *m, size_t first, void *out, size_t size)
{
    const size_t each = HIL_MXFP4_GROUP * sizeof(uint16_t); /* bytes of a group as bf16 */
    const size_t rows = (size_t)m->blocks->dim[1], groups = (size_t)m->blocks->dim[2];
    unsigned char codes[RUN * BYTES], scales[RUN];
    uint16_t number[RUN * HIL_MXFP4_GROUP];
    char *to = out;
    for (size_t last = first + size, n; first < last; first += n, to += n) {
        size_t group = first / each, row = group / groups, column = group % groups;
        size_t count = (last - 1) / each + 1 - group;
        if (count > groups - column) count = groups - column;
        if (count > RUN) count = RUN;
        size_t at = ((size_t)m->expert * rows + row * (size_t)m->parts + (size_t)m->part) * groups;
        HIL_TRY(hil_entry_read(m->blocks, (at + column) * BYTES, codes, count * BYTES));
        HIL_TRY(hil_entry_read(m->scales, at + column, scales, count));
        expand(codes, scales, (int64_t)count, number);
        n = count * each - first % each;
        if (n > last - first) n = last - first;
        memcpy(to, (char *)number + first % each, n);
    }
    return HIL_OK;
}
