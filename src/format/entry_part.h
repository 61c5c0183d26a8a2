/* entry_part.h - a tensor whose numbers are some of those of another one. */
#ifndef HIL_FORMAT_ENTRY_PART_H
#define HIL_FORMAT_ENTRY_PART_H

#include "format/safetensors.h"

/* Number k of the part is number first + k * step of `whole`, which is borrowed; with runs, number
   first + k / run * jump + k % run * step. */
typedef struct hil_entry_part {
    const hil_entry *whole;
    int64_t first, step;
    int64_t run, jump; /* run 0: there are no runs */
    size_t size;       /* bytes of a number */
} hil_entry_part;

/* Bytes [first, first + size) of the part. */
hil_status hil_entry_part_read(const hil_entry_part *part, size_t first, void *out, size_t size);

#endif
