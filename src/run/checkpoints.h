/* checkpoints.h - finds and exports checkpoints by path, without a run. */
#ifndef HIL_RUN_CHECKPOINTS_H
#define HIL_RUN_CHECKPOINTS_H

#include "hilbert/checkpoint.h"

#include "format/model_folder.h"

/* Resolves a user's path to the folder of one checkpoint (*one is true) or a folder of checkpoints.
 */
hil_status hil_checkpoints_at(const char *path, char folder[HIL_PATH_MAX], bool *one);

/* Progress of reading or writing, and whether the user wants to stop. */
typedef struct hil_checkpoints_watch {
    const hil_observer *observer;
    const volatile int *stop;
    const char *what;
    uint64_t done, total;
} hil_checkpoints_watch;
/* For hil_checkpoint_watch: `bytes` more are done. */
hil_status hil_checkpoints_watched(void *watch, uint64_t bytes);

/* Finds the checkpoint that `path` names and checks the files that an export needs. */
hil_status hil_checkpoints_find(const char *path, hil_checkpoints_watch *watch,
                                char dir[HIL_PATH_MAX]);
/* Fails if the file system of `out` has less than `need` bytes free. */
hil_status hil_checkpoints_check_room(const char *out, uint64_t need);

/* export_gguf.c: hil_checkpoint_export with options->gguf. */
hil_status hil_checkpoints_export_gguf(const hil_export_options *options,
                                       const hil_observer *observer, hil_export_result *result);

/* hil_checkpoint_export into a folder whose lock the caller holds. Replaces model files in it whose
   names are in `replaced`. */
hil_status hil_checkpoints_export_locked(const hil_export_options *options,
                                         hil_install_names replaced, const hil_lock *lock,
                                         const hil_observer *observer, hil_export_result *result);

#endif
