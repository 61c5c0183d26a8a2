/* deepspeed_files.h - the files of a checkpoint of DeepSpeed, opened and in the order of the ranks.
 */
#ifndef HIL_FORMAT_DEEPSPEED_FILES_H
#define HIL_FORMAT_DEEPSPEED_FILES_H

#include "format/torch_file.h"

/* Owns the files. */
typedef struct hil_deepspeed_files {
    hil_torch **optimizer; /* of each rank */
    hil_torch **model;     /* of each rank in stage 3 with frozen parameters, else one */
    size_t ranks, models;
    int stage;
    char path[4096]; /* of the step's folder */
} hil_deepspeed_files;

/* `path` is the folder with `latest` in it, or the one of a step. Close also after a failure. */
hil_status hil_deepspeed_files_open(hil_deepspeed_files *files, const char *path);
void hil_deepspeed_files_close(hil_deepspeed_files *files);

/* The dictionary in which the optimizer's states of a rank are; NULL: none. */
const hil_pickle_value *hil_deepspeed_files_optimizer(const hil_deepspeed_files *files,
                                                      size_t rank);

#endif
