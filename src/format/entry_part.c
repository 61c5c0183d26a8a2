/* entry_part.c - reads numbers of a tensor that are some steps apart. */
#include "format/entry_part.h"

#include <string.h>

#define NUMBERS 4096 /* read at once */

hil_status hil_entry_part_read(const hil_entry_part *p, size_t first, void *out, size_t size)
{
    char run[NUMBERS * sizeof(float)], *to = out;
    size_t last = first + size;
    if (p->step == 1)
        return hil_entry_read(p->whole, (size_t)p->first * p->size + first, out, size);
    for (size_t n; first < last; first += n) {
        /* Whole numbers, but for the first and the last byte that is wanted. */
        int64_t at = (int64_t)(first / p->size), count = 1 + (NUMBERS - 1) / p->step;
        int64_t left = (int64_t)((last - 1) / p->size) + 1 - at;
        int64_t from = at, jumped = 0;
        if (count > left) count = left;
        if (p->run) {
            from = at % p->run, jumped = at / p->run * p->jump;
            if (count > p->run - from) count = p->run - from;
        }
        HIL_TRY(hil_entry_read(p->whole, (size_t)(p->first + jumped + from * p->step) * p->size,
                               run, (size_t)((count - 1) * p->step + 1) * p->size));
        for (int64_t k = 1; k < count; ++k)
            memmove(run + (size_t)k * p->size, run + (size_t)(k * p->step) * p->size, p->size);
        n = (size_t)count * p->size - first % p->size;
        if (n > last - first) n = last - first;
        memcpy(to, run + first % p->size, n);
        to += n;
    }
    return HIL_OK;
}
