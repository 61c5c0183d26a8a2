/* cuda.h - the update rules of rule.h on a GPU: the same bits as on the CPU. */
#ifndef HIL_OPTIM_CUDA_H
#define HIL_OPTIM_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/cuda.h"
#include "optim/rule.h"
#include "kernels/kernels.h"

/* Its update takes a hil_update_rule as `rule`, and blocks that begin at a multiple of
   HIL_CODEC_GROUP. */
extern const hil_device_math hil_cuda_math;

#ifdef __cplusplus
}
#endif
#endif
