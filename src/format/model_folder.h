/* model_folder.h - which files of a folder are a model's, and how a new model takes their place.

   [Note: installing] A new model is written into a temporary folder inside its own, and made
   durable there; until then the old one is untouched. Then config.json goes first, the other files
   of the old model after it, the new ones are renamed into their places, and the new config.json
   comes last, each durable before the next. Without config.json neither hilbert nor transformers
   loads a folder. So after a crash at any moment there is the old model, the new one, or none that
   loads; never a mixture. */
#ifndef HIL_FORMAT_MODEL_FOLDER_H
#define HIL_FORMAT_MODEL_FOLDER_H

#include "io/file.h"

/* Names of files that are read as a part of a model, as a set of bits. */
typedef enum hil_model_names {
    HIL_NAMES_NONE = 0,
    HIL_NAMES_WRITTEN = 1, /* by hilbert */
    HIL_NAMES_FOREIGN = 2, /* by other programs only */
    HIL_NAMES_ALL = 3,
} hil_model_names;
hil_model_names hil_model_name_kind(const char *name);

/* The name of a file in `folder` that has one of the names `which`; "" where there is none. A
   missing folder is fine. */
hil_status hil_model_folder_find(const char *folder, hil_model_names which, char out[256]);
/* Removes those files. */
hil_status hil_model_folder_remove(const char *folder, hil_model_names which);

/* Creates the temporary folder for a new model in `folder`. */
hil_status hil_model_folder_begin(const char *folder, char stage[HIL_PATH_MAX]);
/* Gives the whole model in `stage` its place. Files of an old one with the names `replaced` go; any
   others are a failure before anything has changed. `lock` is held on the folder. */
hil_status hil_model_folder_install(const char *folder, const char *stage, hil_model_names replaced,
                                    const hil_lock *lock);

#endif
