/* cuda.h - the update rules of rule.h on a GPU: the same bits as on the CPU. */
#ifndef HIL_OPTIM_CUDA_H
#define HIL_OPTIM_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/cuda.h"
#include "optim/rule.h"

/* Like hil_rule_update, for a block of any length in the GPU's memory that begins at a multiple of
   HIL_CODEC_GROUP; queued. */
hil_status hil_cuda_update(hil_device *device, const hil_rule *rule, const hil_rule_step *step,
                           const hil_block *block);

/* Like hil_block_square for each HIL_BLOCK elements of `block` in turn: lane (blocks, HIL_SQUARES)
   lies on the GPU and is added to. */
hil_status hil_cuda_square(hil_device *device, const hil_block *block, double *lane);

#ifdef __cplusplus
}
#endif
#endif
