/* deepspeed_checkpoint.h - a checkpoint of DeepSpeed's ZeRO stages 1 to 3, of any number of ranks.
 */
#ifndef HIL_FORMAT_DEEPSPEED_CHECKPOINT_H
#define HIL_FORMAT_DEEPSPEED_CHECKPOINT_H

#include "format/safetensors.h"
#include "store/state.h"

/* [Note: zero files] Every rank saved its part of the states as flat fp32 vectors. In stages 1 and
   2 a group of parameters is one vector, cut into equal parts, one per rank. In stage 3 each
   parameter is cut into equal parts, and a rank has its parts of all parameters one after the
   other, divided into sub-groups. The order of the parameters is that of param_shapes; frozen ones
   are in the files of the model's states. */

/* Owns its files. Immutable: several threads may read at once. */
typedef struct hil_deepspeed_checkpoint hil_deepspeed_checkpoint;

/* `path` is the folder with `latest` in it, or the one of a step. Reads all but the numbers. */
hil_status hil_deepspeed_checkpoint_open(hil_deepspeed_checkpoint **out, const char *path);
void hil_deepspeed_checkpoint_close(hil_deepspeed_checkpoint *checkpoint);

typedef struct hil_deepspeed_progress {
    int64_t steps;   /* with those skipped */
    int64_t updates; /* of the optimizer */
    int64_t samples; /* sequences of all steps */
    int stage, ranks;
    double loss_scale; /* 0: the checkpoint has none */
} hil_deepspeed_progress;
hil_deepspeed_progress hil_deepspeed_checkpoint_progress(const hil_deepspeed_checkpoint *c);

/* One state of all parameters as tensors of a file, in fp32, borrowed from the checkpoint. Frozen
   parameters have no moments, and some optimizers only one; a file may be empty. */
const hil_safetensors *hil_deepspeed_checkpoint_state(const hil_deepspeed_checkpoint *checkpoint,
                                                      hil_state state);

#endif
