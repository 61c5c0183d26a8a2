/* model_folder.h - which files of a folder belong to a model, and how a new model replaces them.

   [Note: installing] A new model is written to a temporary folder inside the final one and synced;
   until then the old model is untouched. Then (1) the old config.json is removed, (2) the other
   files of the old model are removed and the new ones renamed to their final names, (3) the new
   config.json is renamed; the folder is synced after each. Without config.json neither hilbert nor
   transformers loads a folder. The config of an adapter folder is adapter_config.json, for which
   the same holds. So after a crash at any time the folder holds the old model, the new
   one, or none that loads; never a mixture. */
#ifndef HIL_FORMAT_MODEL_FOLDER_H
#define HIL_FORMAT_MODEL_FOLDER_H

#include "io/file.h"

/* Kinds of files that a loader reads as part of a model, by name; a set of bits. */
typedef enum hil_install_names {
    HIL_NAMES_NONE = 0,
    HIL_NAMES_WRITTEN = 1, /* hilbert writes them */
    HIL_NAMES_FOREIGN = 2, /* only other programs write them */
    HIL_NAMES_ALL = 3,
} hil_install_names;
hil_install_names hil_install_names_kind(const char *name);

/* The name of a file of kind `which` in `folder`; "": none. A missing folder is fine. */
hil_status hil_install_find(const char *folder, hil_install_names which, char out[256]);
/* Removes the files of kind `which`. */
hil_status hil_install_remove(const char *folder, hil_install_names which);

/* Creates the temporary folder for a new model in `folder`. */
hil_status hil_install_begin(const char *folder, char stage[HIL_PATH_MAX]);
/* Moves the whole model from `stage` to `folder`, in the order of [Note: installing]. Removes the
   old files of kind `replaced`; fails, before any change, if others remain. `lock` is held on the
   folder. */
hil_status hil_install_finish(const char *folder, const char *stage, hil_install_names replaced,
                              const hil_lock *lock);

#endif
