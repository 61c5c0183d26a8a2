/* staged_folder.h - a model folder that a command makes of others: it appears whole or not at all.
 */
#ifndef HIL_RUN_STAGED_FOLDER_H
#define HIL_RUN_STAGED_FOLDER_H

#include "format/export.h"
#include "format/model_folder.h"
#include "format/sidecar_files.h"
#include "tensor/quant.h"

/* Between begin and end it owns the lock on `out`, and a temporary folder there. */
typedef struct hil_staged {
    const char *out;       /* set by the caller, borrowed, and the next three too */
    const char *source[2]; /* folders that are read; NULL: none */
    bool overwrite;        /* replace a model that `out` holds */
    char stage[HIL_PATH_MAX];
    hil_lock lock;
    size_t existed; /* length of the part of the path that existed before */
    bool created;   /* `existed` is known */
} hil_staged;

/* Refuses to write into a source, or over a model without `overwrite`. */
hil_status hil_staged_begin(hil_staged *staged);
/* Writes weights, config.json and the other files. */
hil_status hil_staged_write(const hil_staged *staged, const hil_export *export,
                            const hil_sidecar_files *files, hil_dtype dtype, hil_quant quant);
/* Installs the model if `status` is HIL_OK, else removes every trace; returns the first failure.
   Call it also if begin failed. */
hil_status hil_staged_end(hil_staged *staged, hil_status status);

#endif
