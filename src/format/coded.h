/* coded.h - weights of a few bits whose groups share a scale and a zero: read and expanded.

   [Note: coded] GPTQ and AWQ keep a matrix NAME.weight of (out, in) numbers as NAME.qweight,
   codes in words of 32 bits; NAME.scales, (groups, out) numbers; NAME.qzeros, a code for each of
   those. GPTQ also has NAME.g_idx, the group of each input. A number is (code - zero) * scale,
   rounded to the dtype of the scales, as PyTorch does. GPTQ packs inputs, in their order; its first
   form keeps zeros less one, subtracted from whole words. AWQ packs outputs, eight in the order 0 2
   4 6 1 3 5 7. */
#ifndef HIL_FORMAT_CODED_H
#define HIL_FORMAT_CODED_H

#include "format/safetensors.h"
#include "tensor/quant.h"

/* A view of `base` in which the matrices are of numbers; all other tensors are as they are. Owns
   `base`, which is closed also on failure. */
hil_status hil_coded_open(hil_safetensors **out, hil_safetensors *base,
                          const hil_quant_packing *form);

#endif
