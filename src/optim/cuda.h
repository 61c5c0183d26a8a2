/* cuda.h - the update rules of rule.h on a GPU: the same bits as on the CPU. */
#ifndef HIL_OPTIM_CUDA_H
#define HIL_OPTIM_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/cuda.h"
#include "optim/rule.h"
#include "kernels/kernels.h"

/* Its update takes a hil_update_rule as `rule`. */
extern const hil_device_math hil_cuda_math;

/* Like hil_rule_update, for a block of any length in the GPU's memory that begins at a multiple of
   HIL_CODEC_GROUP; queued. */
hil_status hil_rule_cuda_update(hil_device *device, hil_stream stream, const hil_rule *rule,
                                const hil_rule_step *step, const hil_block *block);

#ifdef __cplusplus
}
#endif
#endif
