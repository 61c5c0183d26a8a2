/* op_cost.h - estimates how much an operation computes and how many bytes it accesses, from shapes.
 */
#ifndef HIL_OPS_OP_COST_H
#define HIL_OPS_OP_COST_H

#include "ops/op.h"

typedef struct hil_work {
    double gemm;      /* floating-point operations of matrix products */
    double attention; /* of attention */
    double bytes;     /* of memory read and written, at least */
    double apart;     /* further bytes on a GPU, which overlap with no product */
    double
        extra; /* further bytes of the CPU's kernels: packing, passes, what slow functions cost */
} hil_work;

/* Of one forward or backward call. After infer; `din` counts where its data is not NULL. */
void hil_op_work(const hil_op_call *call, bool backward, hil_work *out);

#endif
