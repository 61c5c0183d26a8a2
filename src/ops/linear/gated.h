/* gated.h - the matrices of the gated product, as CPU and GPU copy them. */
#ifndef HIL_OPS_LINEAR_GATED_H
#define HIL_OPS_LINEAR_GATED_H

#include "ops/infer.h"

/* Parameters and what is made of them: B of the gate (n x rank), B of up, A of what follows (rank x
   n). */
typedef struct hil_gated {
    int64_t rows, n, rank[HIL_OP_PARAMS];
    void *matrix[HIL_OP_PARAMS]; /* copies */
    float *sum[HIL_OP_PARAMS];   /* backward: their gradients */
    size_t bytes;                /* of scratch */
} hil_gated;

static inline hil_gated hil_gated_of(const hil_op_call *call, bool backward)
{
    hil_gated g;
    char *scratch = (char *)call->scratch;
    g.rows = hil_shape_rows(&call->in[0].shape);
    g.n = hil_shape_cols(&call->in[0].shape);
    g.bytes = 0;
    for (int i = 0; i < HIL_OP_PARAMS; ++i) {
        const hil_op_param *p = &call->param[i];
        g.rank[i] = i < 2 ? p->cols : p->rows;
        g.matrix[i] =
            scratch + hil_scratch_add(&g.bytes, g.n * g.rank[i], hil_dtype_size(p->dtype));
    }
    for (int i = 0; i < HIL_OP_PARAMS; ++i) {
        int64_t numbers = backward ? g.n * g.rank[i] : 0;
        g.sum[i] = (float *)(scratch + hil_scratch_add(&g.bytes, numbers, sizeof(float)));
    }
    return g;
}

#endif
