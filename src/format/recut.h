/* recut.h - kernels of linear attention that transformers cut into equal parts.

   [Note: recut] transformers 5 has one kernel of q, k and v in memory, and saves it as three
   tensors of as many rows each, also where published files have parts of different sizes. One after
   the other the rows are the same. */
#ifndef HIL_FORMAT_RECUT_H
#define HIL_FORMAT_RECUT_H

#include "format/safetensors.h"
#include "model/config/config.h"

/* A view of `base` in which such kernels have the sizes of the config, or `base` where none
   differs. Owns `base`, which is closed also on failure. */
hil_status hil_recut_open(hil_safetensors **out, hil_safetensors *base, const hil_config *config);

#endif
