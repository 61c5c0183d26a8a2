/* output_folder.h - the output folder of a run: a Hugging Face model folder with the run's own
 * files. */
#ifndef HIL_RUN_OUTPUT_FOLDER_H
#define HIL_RUN_OUTPUT_FOLDER_H

#include "comm/comm.h"
#include "format/model_folder.h"
#include "io/file.h"
#include "run/model_source.h"
#include "store/param.h"

/* Owns the lock on the folder. */
typedef struct hil_folder {
    char path[HIL_PATH_MAX], metrics[HIL_PATH_MAX], checkpoints[HIL_PATH_MAX], cache[HIL_PATH_MAX];
    hil_lock lock;
    size_t existed;             /* length of the part of the path that existed before */
    bool begun;                 /* it holds something of the run: close keeps it */
    hil_install_names replaced; /* files of an old model that the new one may replace */
} hil_folder;

/* Creates the folder, or checks that the run may use it, and locks it. Refuses a folder with a run
   unless `resume` or `overwrite` is set, and one with model files unless `overwrite` is. Copies
   the path. */
hil_status hil_folder_open(hil_folder *folder, const hil_train_options *options,
                           const hil_source *source);
/* For the other ranks: fills the paths of a folder that rank 0 has opened. Close does nothing then.
 */
hil_status hil_folder_join(hil_folder *folder, const char *path);
/* Fails unless all ranks see the same folder. Call after rank 0's open and the others' join. */
hil_status hil_folder_check_shared(const hil_folder *folder, hil_comm *comm);
/* Begins the run: removes unfinished files of killed runs; with `overwrite` also all files of the
   old run. */
hil_status hil_folder_begin(hil_folder *folder, const hil_train_options *options);
/* Keeps the folder, though the run has not begun: its cache has what the next one goes on with. */
void hil_folder_hold(hil_folder *folder);
/* Unlocks the folder. Removes it, and the parents created with it, if the run never began. */
void hil_folder_close(hil_folder *folder);

/* Whether two paths are one folder. */
bool hil_folder_same(const char *a, const char *b);

/* Writes weights, config.json and tokenizer files from the checkpoint of `step`. */
hil_status hil_folder_export(const hil_folder *folder, int64_t step, hil_dtype dtype,
                             const hil_observer *observer);
/* Fails if the disk lacks room for the model and one checkpoint more than are kept. */
hil_status hil_folder_check_space(const hil_folder *folder, const hil_source *source,
                                  hil_store *store, hil_dtype dtype, int64_t checkpoints);

#endif
