/* lent_params.h - weights and sums of gradients that stay where they are, lent to an operation. */
#ifndef HIL_BENCH_LENT_PARAMS_H
#define HIL_BENCH_LENT_PARAMS_H

#include "ops/ops.h"

typedef struct lent_params {
    void *weight[HIL_OP_PARAMS];
    float *sum[HIL_OP_PARAMS];
} lent_params;

static hil_status lend_weight(void *owner, int param, int64_t tile, const void **data)
{
    (void)tile;
    *data = ((lent_params *)owner)->weight[param];
    return HIL_OK;
}
static hil_status lend_sum(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    (void)tile;
    *sum = ((lent_params *)owner)->sum[param];
    *add = false; /* as in the first micro-batch of a step */
    return HIL_OK;
}
static void lend_end(void *owner, int param, int64_t tile)
{
    (void)owner, (void)param, (void)tile;
}
static const hil_op_source lent_source = {lend_weight, lend_end, lend_sum, lend_end};

#endif
