/* quantized.h - quantized weights in model folders: their codes and scales, which are read as they
   are, and written as others write them.

   [Note: quantized folders] For the matrix NAME.weight there are beside it, by method:
   bitsandbytes 4 bits: NAME.weight.absmax, .quant_map, and
   NAME.weight.quant_state.bitsandbytes__nf4, a JSON object as bytes; with double quantization
   .nested_absmax and .nested_quant_map too. bitsandbytes 8 bits: NAME.SCB, a scale for each row,
   and NAME.weight_format, always a zero. fp8: NAME.weight_scale_inv, a scale for each square. A
   matrix without them is not quantized. */
#ifndef HIL_FORMAT_QUANTIZED_H
#define HIL_FORMAT_QUANTIZED_H

#include "base/json.h"
#include "format/export.h"
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

/* The tensors of one quantized matrix in a folder. */
typedef enum hil_quantized_part {
    HIL_QUANTIZED_CODES,
    HIL_QUANTIZED_SCALES, /* nf4: their codes */
    HIL_QUANTIZED_NESTED, /* this and the next three: nf4 */
    HIL_QUANTIZED_TABLE,
    HIL_QUANTIZED_NESTED_TABLE,
    HIL_QUANTIZED_STATE,
    HIL_QUANTIZED_FORMAT, /* int8 */
    HIL_QUANTIZED_PARTS
} hil_quantized_part;

/* What a folder says of a matrix that is written to it in nf4, int8 or fp8. */
typedef struct hil_quantized_matrix {
    const hil_param *param;
    hil_quant quant;
    hil_dtype dtype; /* of the numbers that were quantized */
    float offset;    /* nf4 */
} hil_quantized_matrix;
/* The name (which the caller frees), dtype and shape of a tensor; name NULL: this method has none.
 */
hil_status hil_quantized_tensor(const hil_quantized_matrix *matrix, hil_quantized_part part,
                                hil_export_tensor *out);
/* Appends the bytes of the part HIL_QUANTIZED_STATE. */
hil_status hil_quantized_state_write(const hil_quantized_matrix *matrix, hil_text *out);

#endif
