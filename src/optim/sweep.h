/* sweep.h - the end of a step: the gradient's norm, then every parameter's update. */
#ifndef HIL_OPTIM_SWEEP_H
#define HIL_OPTIM_SWEEP_H

#include "store/store.h"

typedef struct hil_adamw_options {
    double beta1, beta2, eps, weight_decay;
    double clip; /* largest gradient norm, 0: none */
} hil_adamw_options;

/* The norm of all gradients given in this step. */
hil_status hil_sweep_norm(hil_store *store, hil_pool *pool, double *norm);

/* Updates every parameter that has a gradient. `step` counts from 1. */
hil_status hil_sweep_update(hil_store *store, hil_pool *pool, const hil_adamw_options *options,
                            double lr, double norm, int64_t step);

#endif
