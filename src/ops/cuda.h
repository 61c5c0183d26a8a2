/* cuda.h - the operations of ops.h on a GPU. They acquire the same tiles in the same order as on
   the CPU (the head has larger chunks), queue kernels on the device's stream and return. Results
   differ from the CPU's by rounding. */
#ifndef HIL_OPS_CUDA_H
#define HIL_OPS_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/cuda.h"
#include "ops/op.h"

/* Like op->infer, forward and backward, for calls with a device. Shapes of results are those of the
   CPU; the sizes of scratch are the GPU's. With a dry pool no kernel is queued. */
hil_status hil_op_cuda_infer(hil_op_call *call);
hil_status hil_op_cuda_forward(hil_op_call *call);
hil_status hil_op_cuda_backward(hil_op_call *call);

extern const hil_device_ops hil_cuda_ops;

/* to = from, or to += from, converted and rounded once. Both have `count` elements. */
hil_status hil_op_cuda_convert(hil_device *device, const hil_tensor *to, const hil_tensor *from,
                               bool add);
/* *out += the sum of the fp32 numbers of x, in a fixed order. `out` is shared with the host. */
hil_status hil_op_cuda_sum(hil_device *device, const hil_tensor *x, double *out);

#ifdef __cplusplus
}
#endif
#endif
