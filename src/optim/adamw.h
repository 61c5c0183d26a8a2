/* adamw.h - AdamW on one block: the same operations in the same order on every machine. */
#ifndef HIL_OPTIM_ADAMW_H
#define HIL_OPTIM_ADAMW_H

#include "store/store.h"

/* The numbers of one step, rounded to fp32 once. */
typedef struct hil_adamw {
    float shrink;     /* 1 - lr * weight_decay */
    float beta1_rest; /* 1 - beta1 */
    float beta2, beta2_rest;
    float rate; /* lr / (1 - beta1^step) */
    float root; /* 1 / sqrt(1 - beta2^step) */
    float eps;
    float clip; /* gradients are multiplied by it */
} hil_adamw;

/* For the gradient g = clip * sum of the block's gradients:
     m = m + (1 - beta1) (g - m)
     v = beta2 v + (1 - beta2) g^2
     w = shrink w - rate m / (sqrt(v) root + eps) */
void hil_adamw_block(const hil_adamw *rule, const hil_block *block);

/* Sum of squares of the block's summed gradient, in 16 interleaved lanes of double. */
double hil_block_square(const hil_block *block);

#endif
