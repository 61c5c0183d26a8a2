/* quantized.h - quantized weights in folders of others: their codes and scales, which are read as
   they are.

   [Note: quantized folders] For the matrix NAME.weight there are beside it, by method:
   bitsandbytes 4 bits: NAME.weight.absmax, .quant_map, and
   NAME.weight.quant_state.bitsandbytes__nf4, a JSON object as bytes; with double quantization
   .nested_absmax and .nested_quant_map too. bitsandbytes 8 bits: NAME.SCB, a scale for each row.
   fp8: NAME.weight_scale_inv, a scale for each square.
   A matrix without them is not quantized. */
#ifndef HIL_FORMAT_QUANTIZED_H
#define HIL_FORMAT_QUANTIZED_H

#include "base/json.h"
#include "format/safetensors.h"
#include "store/param.h"

/* What NAME.weight.quant_state says. */
typedef struct hil_quantized_state {
    int64_t rows, cols;
    bool nested;
    float offset;
} hil_quantized_state;
hil_status hil_quantized_state_parse(hil_quantized_state *out, const char *bytes, size_t size,
                                     const char *what);

/* How the tensors of the file keep the parameter; none: as numbers. */
hil_quant hil_quantized_find(const hil_safetensors *file, const hil_param *param);
/* Reads codes and scales into a parameter that is kept in this form. */
hil_status hil_quantized_load(const hil_safetensors *file, hil_param *param);

#endif
