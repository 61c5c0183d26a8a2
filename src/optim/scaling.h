/* scaling.h - the loss scale, which keeps fp16 gradients in range.

   [Note: loss scale] fp16 rounds numbers below 6e-8 to zero, so backward starts from the loss times
   a power of two, and the update divides by it. If a gradient is not finite, the step updates
   nothing and the scale is halved; after HIL_SCALING_WINDOW updates in a row it is doubled. At
   scale 1 a gradient that is not finite is an error. A hil_loss_scale sets other numbers. */
#ifndef HIL_OPTIM_SCALING_H
#define HIL_OPTIM_SCALING_H

#include "hilbert/schedule.h"
#include "tensor/tensor.h"

#define HIL_SCALING_START 65536
#define HIL_SCALING_MOST (1 << 24)
#define HIL_SCALING_WINDOW 2000

typedef struct hil_scaling {
    int64_t scale;   /* always 1 if the gradients are not fp16 */
    int64_t good;    /* updates since it last changed */
    int64_t skipped; /* steps without an update so far */
    int64_t window;  /* updates after which it grows; 0: never */
    int64_t left;    /* overflows until one halves it, with that one */
    hil_loss_scale rule;
} hil_scaling;

/* NULL, or a rule without a start: the numbers above. */
hil_scaling hil_scaling_begin(hil_dtype compute, const hil_loss_scale *rule);
/* Whether a step whose gradients are not finite is skipped; otherwise it is an error. */
bool hil_scaling_skips(const hil_scaling *scaling);
/* To be called after every step: `finite` ones were updated, others skipped. */
void hil_scaling_advance(hil_scaling *scaling, bool finite);

#endif
