/* sampling.h - choosing the next token from logits. */
#ifndef HIL_RUN_SAMPLING_H
#define HIL_RUN_SAMPLING_H

#include "base/alloc.h"

typedef struct hil_sampling {
    double temperature; /* 0: the largest logit, the lowest id among equals */
    int64_t top_k;      /* 0: all */
    double top_p;       /* 1: all */
} hil_sampling;

/* Refuses values out of range, in the words of the program's options. */
hil_status hil_sampling_check(const hil_sampling *how);

/* Returns the id of the chosen token. `random` is in [0, 1). `order` is scratch of `vocab` numbers.
 */
int32_t hil_sample(const hil_sampling *how, const float *logits, int64_t vocab, double random,
                   int32_t *order);

#endif
