/* checkpoints.h - checkpoints seen from outside a run. */
#ifndef HIL_TRAIN_CHECKPOINTS_H
#define HIL_TRAIN_CHECKPOINTS_H

#include "hilbert/checkpoint.h"

#include "base/text.h"

/* What a user's path means: one checkpoint's own folder (*one), or a folder of checkpoints. */
hil_status hil_checkpoints_at(const char *path, char folder[HIL_PATH_MAX], bool *one);

#endif
