/* norm.h - what LayerNorm and RMSNorm share: they differ in the mean and the bias. */
#ifndef HIL_OPS_NORM_NORM_H
#define HIL_OPS_NORM_NORM_H

#include "ops/op.h"

/* Saves 1/deviation per row, after the mean where it is centered. */
hil_status hil_norm_infer(hil_op_call *call, bool centered);
hil_status hil_norm_forward(hil_op_call *call, bool centered);
hil_status hil_norm_backward(hil_op_call *call, bool centered);

#endif
