/* mask.h - dropout masks: a pure function of (seed, step, sequence, site, element). */
#ifndef HIL_OPS_MASK_H
#define HIL_OPS_MASK_H

#include "ops/op.h"

/* Factors that are 0 with probability `rate` and otherwise 1 / (1 - rate). */
typedef struct hil_mask {
    uint64_t key;      /* of seed, step and site */
    int64_t sequence;  /* of batch row 0 */
    int32_t dropped;   /* a word's upper 24 bits below this are dropped */
    float kept_factor; /* 1 / (1 - rate) */
} hil_mask;
hil_mask hil_mask_create(const hil_op_random *random, double rate);

/* The factors of elements [element, element + n) of the sequence in batch row `row`. */
void hil_mask_fill(const hil_mask *mask, int64_t row, int64_t element, int64_t n, float *factor);

#endif
