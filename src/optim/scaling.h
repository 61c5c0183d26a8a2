/* scaling.h - the scale of the loss that keeps fp16 gradients in range.

   [Note: loss scale] fp16 loses what is below 6e-8, so backward starts from a loss that is larger
   by a power of two, and the update divides by it. When some gradient is not a finite number, the
   step updates nothing and the scale is halved; after HIL_SCALING_WINDOW updates in a row it is
   doubled. Only at scale 1 is such a gradient an error. */
#ifndef HIL_OPTIM_SCALING_H
#define HIL_OPTIM_SCALING_H

#include "tensor/tensor.h"

#define HIL_SCALING_START 65536
#define HIL_SCALING_MOST (1 << 24)
#define HIL_SCALING_WINDOW 2000

typedef struct hil_scaling {
    int64_t scale;   /* 1 for good where the gradients are not fp16 */
    int64_t good;    /* updates since it changed */
    int64_t skipped; /* steps without an update so far */
    int64_t window;  /* updates after which it grows; 0: never */
} hil_scaling;

hil_scaling hil_scaling_begin(hil_dtype compute);
/* After a step whose gradients were finite (and used), or not (and were skipped). */
void hil_scaling_advance(hil_scaling *scaling, bool finite);

#endif
