/* mxfp4.h - numbers of 4 bits, of which 32 share a power of two: read and expanded.

   [Note: mxfp4] The matrices of all experts are in files as NAME_blocks (experts, rows, groups,
   16), bytes with two numbers each, the first in the lower bits, and NAME_scales (experts, rows,
   groups), the power of two plus 127. Rows are those of the model, not of the transposes that a
   file in bf16 has. */
#ifndef HIL_FORMAT_MXFP4_H
#define HIL_FORMAT_MXFP4_H

#include "format/safetensors.h"

enum { HIL_MXFP4_GROUP = 32 };

/* Rows part, part + parts, ... of one expert's matrix. */
typedef struct hil_mxfp4 {
    const hil_entry *blocks, *scales;
    int64_t expert, part, parts;
} hil_mxfp4;
/* Whether both tensors have the shapes above. */
bool hil_mxfp4_fits(const hil_entry *blocks, const hil_entry *scales, int64_t experts);
/* Bytes [first, first + size) of these rows as bf16, which holds their numbers exactly. */
hil_status hil_mxfp4_read(const hil_mxfp4 *m, size_t first, void *out, size_t size);

#endif
