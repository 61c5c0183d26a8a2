/* op_bench.h - what benches of operations share: parameters that stay where they are, and bytes. */
#ifndef HIL_BENCH_OP_BENCH_H
#define HIL_BENCH_OP_BENCH_H

#include "ops/ops.h"

typedef struct lent_params {
    void *weight[HIL_OP_PARAMS];
    float *sum[HIL_OP_PARAMS];
    size_t expert; /* elements of an expert's weight; 0: there is one */
    size_t size;   /* bytes of one of them */
} lent_params;

static hil_status lend_weight(void *owner, int param, int64_t tile, const void **data)
{
    const lent_params *p = owner;
    *data = (char *)p->weight[param] + (size_t)tile * p->expert * p->size;
    return HIL_OK;
}
static hil_status lend_sum(void *owner, int param, int64_t tile, float **sum, bool *add)
{
    const lent_params *p = owner;
    *sum = p->sum[param] + (size_t)tile * p->expert;
    *add = false; /* as in the first micro-batch of a step */
    return HIL_OK;
}
static void lend_end(void *owner, int param, int64_t tile)
{
    (void)owner, (void)param, (void)tile;
}
static const hil_op_source lent_source = {lend_weight, lend_end, lend_sum, lend_end};

/* Of the tensors that a pass must read and write. */
static inline double call_bytes(const hil_op_call *call, bool backward)
{
    double bytes = 0;
    for (int i = 0; i < call->ins; ++i) {
        if (!backward || call->op->keep_in >> i & 1)
            bytes += (double)hil_tensor_bytes(&call->in[i]);
        if (backward && call->din[i].data) bytes += (double)hil_tensor_bytes(&call->din[i]);
    }
    for (int i = 0; i < call->outs; ++i) bytes += (double)hil_tensor_bytes(&call->out[i]);
    return bytes;
}

#endif
