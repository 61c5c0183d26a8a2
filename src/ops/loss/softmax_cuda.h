/* softmax_cuda.h - cross-entropy of rows of logits, and its gradient, on a GPU. */
#ifndef HIL_OPS_LOSS_SOFTMAX_CUDA_H
#define HIL_OPS_LOSS_SOFTMAX_CUDA_H

#include "ops/cuda_kernel.h"

#define HIL_LOGIT_UNIT 64 /* the stride is a multiple of this, so that rows are aligned */

/* loss[row] = log(sum of exp(logits)) - logit of the target, 0 for a negative target. With
   `differentiate` the gradient times loss_scale replaces the logits: a row begins where it was and
   has the compute dtype; without a target it is zeros. Numbers between vocab and stride are not
   used and may be overwritten. A row's results do not depend on other rows, bit for bit. */
typedef struct hil_softmax {
    float *logits; /* (rows, stride) */
    int64_t rows, stride, vocab;
    const int32_t *target;
    float *loss;
    float loss_scale;
    const float *scale; /* of each row instead of loss_scale; NULL: none */
    bool prompts;       /* of hil_targets_id */
    hil_dtype compute;
    bool differentiate;
} hil_softmax;

hil_status hil_softmax_cuda(hil_device *device, const hil_softmax *job);

#endif
