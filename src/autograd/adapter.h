/* adapter.h - layers that are computed together with their adapters. */
#ifndef HIL_AUTOGRAD_ADAPTER_H
#define HIL_AUTOGRAD_ADAPTER_H

#include "hilbert/nn.h"

/* The matrices of a gated MLP; `down` is the one that its result is multiplied with next. */
typedef struct hil_linear_gates {
    hil_param *gate, *up, *gate_bias, *up_bias, *down; /* biases may be NULL */
} hil_linear_gates;

/* *y = silu(gate x) * (up x). Where all three have adapters, what these add, and the first product
   of down's, is computed in the same pass over gate and up. */
hil_status hil_linear_swiglu(hil_tape *t, hil_value *x, const hil_linear_gates *w, hil_value **y);

#endif
