/* op_cost.h - estimates how much an operation computes and how many bytes it accesses, from shapes.
 */
#ifndef HIL_OPS_OP_COST_H
#define HIL_OPS_OP_COST_H

#include "ops/linear/gemm.h"
#include "ops/op.h"

/* [Note: stretched work] Threads of the CPU share an operation in tasks. Where these are few or do
   not divide evenly, some threads idle until the last one ends, and what these could have done
   meanwhile is counted as work, too. So work divided by the speed of all threads is the time. */
typedef struct hil_work {
    double gemm;      /* floating-point operations of matrix products */
    double gemm_fp8;  /* of those in 8 bits */
    double attention; /* of attention */
    double idle;      /* the part of the other threads that is idle meanwhile: 0 to 1 */
    double bytes;     /* of memory read and written, at least */
    double apart;     /* further bytes on a GPU, which overlap with no product */
    double vector;    /* of the CPU's loops over elements, in operations (op_cost.c) */
    double packed;    /* numbers that the CPU packs for products, and rounds after them */
    double tiles;     /* of weights, which the CPU's products acquire one by one */
    double runs;      /* of the CPU's pool */
    double kernels;   /* that a GPU launches; a product counts as two, and 0 as 1 */
} hil_work;

/* Of one forward or backward call. After infer; `din` counts where its data is not NULL. `threads`
   of the CPU compute; 0: a GPU does, or nobody knows, and nothing is stretched. */
void hil_op_work(const hil_op_call *call, bool backward, int threads, hil_work *out);
/* Adds the product c = a * b. Its matrices have dtypes and strides, but no data. */
void hil_work_add_product(hil_work *work, const hil_gemm *product, int threads);

#endif
