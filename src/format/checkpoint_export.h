/* checkpoint_export.h - a Hugging Face model folder from the files of a checkpoint. */
#ifndef HIL_FORMAT_CHECKPOINT_EXPORT_H
#define HIL_FORMAT_CHECKPOINT_EXPORT_H

#include "format/checkpoint_manifest.h"
#include "format/model_folder.h"
#include "tensor/tensor.h"

/* The weights of a checkpoint, opened for export. Owns its files. */
typedef struct hil_checkpoint_model hil_checkpoint_model;

/* `dir` is the checkpoint's folder. Verify its checksums before. */
hil_status hil_checkpoint_model_open(hil_checkpoint_model **out, const char *dir);
/* The same of a checkpoint of DeepSpeed; config and tokenizer are those of the folder `model`. */
hil_status hil_checkpoint_model_open_deepspeed(hil_checkpoint_model **out, const char *dir,
                                               const char *model);
void hil_checkpoint_model_close(hil_checkpoint_model *model);
/* The dtype of config.json. */
hil_dtype hil_checkpoint_model_dtype(const hil_checkpoint_model *model);
int64_t hil_checkpoint_model_step(const hil_checkpoint_model *model);
int64_t hil_checkpoint_model_tensors(const hil_checkpoint_model *model);

typedef struct hil_checkpoint_model_options {
    const char *out;            /* an existing folder */
    const hil_lock *lock;       /* held on it; may be NULL */
    hil_install_names replaced; /* files of an old model to replace; see model_folder.h */
    hil_dtype dtype;
    size_t shard_bytes;                /* 0: 5 GB */
    const hil_checkpoint_watch *watch; /* called for each piece written; may be NULL */
} hil_checkpoint_model_options;
/* The bytes of the weights' files. */
hil_status hil_checkpoint_model_bytes(hil_checkpoint_model *model,
                                      const hil_checkpoint_model_options *options, uint64_t *out);
/* Writes weights, config.json and the tokenizer's files; after a failure, none of them. */
hil_status hil_checkpoint_model_write(hil_checkpoint_model *model,
                                      const hil_checkpoint_model_options *options);

#endif
