/* orthogonal.h - what CPU and GPU share of the nearest orthogonal matrix. */
#ifndef HIL_OPS_LINEAR_ORTHOGONAL_H
#define HIL_OPS_LINEAR_ORTHOGONAL_H

#include "ops/infer.h"
#include "ops/ops.h"

#include <math.h>

/* [Note: Newton-Schulz] Each of five steps applies the polynomial a s + b s^3 + c s^5 to all
   singular values s of x: with the smaller Gram matrix G = x x' (or x' x), x becomes
   (a + (b + c G) G) x. From values of at most 1 they end near 1, between 0.7 and 1.2. x, G and the
   polynomials are in bf16, products are summed in fp32; PyTorch's torch.optim.Muon has the same
   numbers. */
#define HIL_ORTHOGONAL_STEPS 5
#define HIL_ORTHOGONAL_A 3.4445f
#define HIL_ORTHOGONAL_B (-4.7750f)
#define HIL_ORTHOGONAL_C 2.0315f
/* The root of the mean square of AdamW's updates is about 0.2; this gives all shapes the same. */
#define HIL_ORTHOGONAL_RMS 0.2
#define HIL_ORTHOGONAL_EPS 1e-7 /* the smallest norm that x is divided by */

typedef struct hil_orthogonal {
    int64_t rows, cols, side;       /* side: the smaller one */
    uint16_t *x[2];                 /* rows x cols: before and after a step, in turn */
    uint16_t *gram, *inner, *outer; /* side x side: G, b + c G, a + (b + c G) G */
    double *square;                 /* of each row, and their sum */
    float scale;                    /* of the result */
    size_t bytes;                   /* of scratch */
} hil_orthogonal;

static inline hil_orthogonal hil_orthogonal_of(const hil_op_call *call)
{
    hil_orthogonal o;
    uintptr_t scratch = (uintptr_t)call->scratch; /* 0 where only the bytes are asked for */
    o.rows = call->in[0].shape.dim[0];
    o.cols = call->in[0].shape.dim[1];
    o.side = o.rows < o.cols ? o.rows : o.cols;
    o.bytes = 0;
    for (int i = 0; i < 2; ++i)
        o.x[i] = (uint16_t *)(scratch + hil_scratch_add(&o.bytes, o.rows * o.cols, 2));
    o.gram = (uint16_t *)(scratch + hil_scratch_add(&o.bytes, o.side * o.side, 2));
    o.inner = (uint16_t *)(scratch + hil_scratch_add(&o.bytes, o.side * o.side, 2));
    o.outer = (uint16_t *)(scratch + hil_scratch_add(&o.bytes, o.side * o.side, 2));
    o.square = (double *)(scratch + hil_scratch_add(&o.bytes, o.rows + 1, sizeof(double)));
    o.scale = (float)(HIL_ORTHOGONAL_RMS * sqrt((double)(o.rows + o.cols - o.side)));
    return o;
}

#endif
