/* short_conv.h - a gated convolution over a few positions in place of a block's attention (LFM2).
 */
#ifndef HIL_MODEL_SHORT_CONV_H
#define HIL_MODEL_SHORT_CONV_H

#include "model/build.h"

#define HIL_SHORT_CONV_OUT "conv.out_proj" /* the output projection */

typedef struct hil_short_conv {
    hil_param *in, *kernel; /* NULL: the layer has none */
} hil_short_conv;

/* Registers the parameters of layer n but its output projection, if it has one. */
hil_status hil_short_conv_build(hil_model *model, const hil_config *config, int64_t n,
                                hil_short_conv *out);
/* x (B, T, C) to what the output projection reads. */
hil_status hil_short_conv_run(hil_tape *t, const hil_short_conv *conv, hil_value *x, hil_value **y);

#endif
