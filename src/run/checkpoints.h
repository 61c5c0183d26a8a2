/* checkpoints.h - finds and exports checkpoints by path, without a run. */
#ifndef HIL_RUN_CHECKPOINTS_H
#define HIL_RUN_CHECKPOINTS_H

#include "hilbert/checkpoint.h"

#include "format/model_folder.h"

/* Resolves a user's path to the folder of one checkpoint (*one is true) or a folder of checkpoints.
 */
hil_status hil_checkpoints_at(const char *path, char folder[HIL_PATH_MAX], bool *one);

/* hil_checkpoint_export into a folder whose lock the caller holds. Replaces model files in it whose
   names are in `replaced`. */
hil_status hil_checkpoints_export_locked(const hil_export_options *options,
                                         hil_install_names replaced, const hil_lock *lock,
                                         const hil_observer *observer, hil_export_result *result);

#endif
