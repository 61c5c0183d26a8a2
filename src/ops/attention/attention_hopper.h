/* attention_hopper.h - attention's backward on GPUs of compute capability 9.0: bf16, heads of 64 or
   128 numbers, a causal mask only. Deterministic. */
#ifndef HIL_OPS_ATTENTION_HOPPER_H
#define HIL_OPS_ATTENTION_HOPPER_H

#include "ops/attention/attention_cuda.h"

bool hil_attention_hopper_can(const hil_device *device, const hil_cuda_attention *a);
size_t hil_attention_hopper_scratch(const hil_cuda_attention *a);
/* Overwrites dq, dk and dv; none may be NULL. */
hil_status hil_attention_hopper_backward(hil_device *device, const hil_cuda_attention *a,
                                         void *scratch);

#endif
