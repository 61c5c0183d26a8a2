/* sidecar_files.h - the small files of a model folder: its config and its tokenizer's files. */
#ifndef HIL_FORMAT_SIDECAR_FILES_H
#define HIL_FORMAT_SIDECAR_FILES_H

#include "io/file.h"
#include "tensor/quant.h"

typedef enum hil_sidecar_file {
    HIL_SIDECAR_CONFIG,
    HIL_SIDECAR_TOKENIZER,
    HIL_SIDECAR_TOKENIZER_CONFIG,
    HIL_SIDECAR_SPECIAL_TOKENS,
    HIL_SIDECAR_SENTENCEPIECE,
    HIL_SIDECAR_VOCAB,
    HIL_SIDECAR_MERGES,
    HIL_SIDECAR_GENERATION,
    HIL_SIDECAR_CHAT_TEMPLATE,
    HIL_SIDECAR_ADDED_TOKENS,
    HIL_SIDECAR_ADAPTER, /* of an adapter's checkpoint, not of its base */
    HIL_SIDECAR_FILES
} hil_sidecar_file;

/* "config.json", ... */
const char *hil_sidecar_file_name(hil_sidecar_file which);

/* Their content, read once, so that later changes of the folder have no effect. Owns it. */
typedef struct hil_sidecar_files {
    hil_bytes file[HIL_SIDECAR_FILES]; /* data is NULL: no such file */
} hil_sidecar_files;

/* Reads those of `folder` that exist and were not read yet. Free it also after a failure. */
hil_status hil_sidecar_files_read(hil_sidecar_files *files, const char *folder);
void hil_sidecar_files_free(hil_sidecar_files *files);
/* Drops the tokenizer's files, but not the chat template, for a model that is trained without one.
 */
void hil_sidecar_files_drop_tokenizer(hil_sidecar_files *files);
uint64_t hil_sidecar_files_bytes(const hil_sidecar_files *files);

/* Writes one file, which exists, into `folder`. The caller syncs the folder. */
hil_status hil_sidecar_files_write_one(const hil_sidecar_files *files, hil_sidecar_file which,
                                       const char *folder);
/* Writes all but config.json into `folder`. The caller syncs the folder. */
hil_status hil_sidecar_files_write(const hil_sidecar_files *files, const char *folder);
/* Writes config.json with dtype and quantization of the saved weights; see hil_config_edit. */
hil_status hil_sidecar_files_write_config(const hil_sidecar_files *files, const char *folder,
                                          hil_dtype dtype, hil_quant quant);

#endif
