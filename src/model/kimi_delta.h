/* kimi_delta.h - linear attention in place of a block's attention, with a decay per channel of the
   key (Kimi Delta Attention).

   [Note: kimi delta] As [Note: delta net], but for these: q, k and v have projections and
   convolutions of their own; the decays, of each channel of a key, and the gate of what it gives
   come through a few numbers of each position, or directly; the gate is a sigmoid. */
#ifndef HIL_MODEL_KIMI_DELTA_H
#define HIL_MODEL_KIMI_DELTA_H

#include "model/build.h"

typedef struct hil_kimi_delta {
    const hil_config *config;
    hil_param *qkv[3], *kernel[3]; /* NULL: the layer has no such attention */
    hil_param *forget_down, *forget_up, *gate_down, *gate_up, *write; /* .._down NULL: none */
    hil_param *norm;
    hil_delta_options options;
} hil_kimi_delta;

/* Registers the parameters of layer n but its output projection, if it has such attention. */
hil_status hil_kimi_delta_build(hil_model *model, const hil_config *config, int64_t n,
                                hil_kimi_delta *out);
/* x (B, T, C) to what the output projection reads. */
hil_status hil_kimi_delta_run(hil_tape *t, const hil_kimi_delta *delta, hil_value *x,
                              hil_value **y);

#endif
