/* quantizer.h - fills quantized parameters: from numbers, which are quantized piece by piece, or
   from codes and scales that exist. Blocking, like state.h. */
#ifndef HIL_STORE_QUANTIZER_H
#define HIL_STORE_QUANTIZER_H

#include "store/state.h"

/* Where the numbers of a matrix come from: elements [first, first + count), row by row. They are
   asked for in order, each once. */
typedef struct hil_quantizer {
    hil_status (*read)(void *context, int64_t first, int64_t count, float *out);
    void *context;
    /* The numbers are those of this stream: a device may draw them. NULL: only `read` knows them.
       Its range and memory are not used. */
    const hil_quant_draw *draw;
} hil_quantizer;
/* Quantizes a parameter. Memory: some rows in fp32, and with nf4 the scales of the whole matrix.
   Every rank quantizes all of it and keeps its slice. */
hil_status hil_quantizer_fill(hil_param *param, const hil_quantizer *quantizer);

/* Scales of a whole matrix, as its quant has them. */
typedef struct hil_quantizer_scales {
    const float *table;        /* nf4 and nf4-plain */
    const float *nested_table; /* nf4, and all below */
    const float *nested;
    float offset;
    const unsigned char *code; /* of each block's scale */
    const float *scale;        /* all others: of each block, row or square */
} hil_quantizer_scales;
/* Writes the scales to all tiles. The codes are written with hil_quantizer_codes. */
hil_status hil_quantizer_put_scales(hil_param *param, const hil_quantizer_scales *scales);
/* Writes the codes of elements [first, first + count), of one tile, `first` even. */
hil_status hil_quantizer_put_codes(hil_param *param, int64_t first, int64_t count,
                                   const void *codes);

#endif
