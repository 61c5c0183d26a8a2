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
    size_t existed;           /* bytes of the path that were there before */
    bool begun;               /* the run has */
    hil_model_names replaced; /* files of an old model that the new one may replace */
} hil_folder;

/* Creates the folder or checks that the run may use it: one that holds a run is refused without
   `resume` or `overwrite`, one that holds files of a model without `overwrite`. */
hil_status hil_folder_open(hil_folder *folder, const hil_train_options *options,
                           const hil_source *source);
/* The paths of a folder that rank 0 has opened; close does nothing then. */
hil_status hil_folder_join(hil_folder *folder, const char *path);
/* Whether all ranks see one folder; rank 0 has opened it and the others have joined. */
hil_status hil_folder_check_shared(const hil_folder *folder, hil_comm *comm);
/* The run begins. What killed runs left unfinished is removed; with `overwrite` the old run's own
   files as well. */
hil_status hil_folder_begin(hil_folder *folder, const hil_train_options *options);
/* A folder that was created for a run that did not begin goes away, and its parents with it. */
void hil_folder_close(hil_folder *folder);

/* Whether two paths are one folder. */
bool hil_folder_same(const char *a, const char *b);

/* Writes weights, config.json and the tokenizer's files of the checkpoint at `step`. */
hil_status hil_folder_export(const hil_folder *folder, int64_t step, hil_dtype dtype,
                             const hil_observer *observer);
/* Fails when the disk has not the room for the model and for one more checkpoint than are kept. */
hil_status hil_folder_check_space(const hil_folder *folder, const hil_source *source,
                                  hil_store *store, hil_dtype dtype, int64_t checkpoints);

#endif
