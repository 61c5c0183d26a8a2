/* checkpoints.h - checkpoints seen from outside a run. */
#ifndef HIL_RUN_CHECKPOINTS_H
#define HIL_RUN_CHECKPOINTS_H

#include "hilbert/checkpoint.h"

#include "format/model_folder.h"

/* What a user's path means: one checkpoint's own folder (*one), or a folder of checkpoints. */
hil_status hil_checkpoints_at(const char *path, char folder[HIL_PATH_MAX], bool *one);

/* hil_checkpoint_export into a folder whose lock is held. Files of a model with the names
   `replaced` may be in it, and go. */
hil_status hil_checkpoint_export_locked(const hil_export_options *options, hil_model_names replaced,
                                        const hil_lock *lock, const hil_observer *observer,
                                        hil_export_result *result);

#endif
