/* model_files.h - the small files of a model folder: its config and its tokenizer's files. */
#ifndef HIL_FORMAT_MODEL_FILES_H
#define HIL_FORMAT_MODEL_FILES_H

#include "io/file.h"
#include "tensor/tensor.h"

typedef enum hil_model_file {
    HIL_FILE_CONFIG,
    HIL_FILE_TOKENIZER,
    HIL_FILE_TOKENIZER_CONFIG,
    HIL_FILE_SPECIAL_TOKENS,
    HIL_FILE_SENTENCEPIECE,
    HIL_FILE_VOCAB,
    HIL_FILE_MERGES,
    HIL_FILE_GENERATION,
    HIL_FILE_CHAT_TEMPLATE,
    HIL_FILE_ADDED_TOKENS,
    HIL_FILE_ADAPTER, /* of an adapter's checkpoint, not of its base */
    HIL_MODEL_FILES
} hil_model_file;

/* "config.json", ... */
const char *hil_model_file_name(hil_model_file which);

/* Their content, read once, so that later changes of the folder have no effect. Owns it. */
typedef struct hil_model_files {
    hil_bytes file[HIL_MODEL_FILES]; /* data is NULL: no such file */
} hil_model_files;

/* Reads those of `folder` that exist and were not read yet. Free it also after a failure. */
hil_status hil_model_files_read(hil_model_files *files, const char *folder);
void hil_model_files_free(hil_model_files *files);
/* Drops the tokenizer's files, for a model that is trained without one. */
void hil_model_files_drop_tokenizer(hil_model_files *files);
uint64_t hil_model_files_bytes(const hil_model_files *files);

/* Writes one file, which exists, into `folder`. The caller syncs the folder. */
hil_status hil_model_files_write_one(const hil_model_files *files, hil_model_file which,
                                     const char *folder);
/* Writes all but config.json into `folder`. The caller syncs the folder. */
hil_status hil_model_files_write(const hil_model_files *files, const char *folder);
/* Writes config.json with the dtype of the saved weights; see hil_config_edit. */
hil_status hil_model_files_write_config(const hil_model_files *files, const char *folder,
                                        hil_dtype dtype);

#endif
