/* checkpoint_export.h - a Hugging Face model folder from the files of a checkpoint alone. */
#ifndef HIL_FORMAT_CHECKPOINT_EXPORT_H
#define HIL_FORMAT_CHECKPOINT_EXPORT_H

#include "format/checkpoint_manifest.h"
#include "format/model_folder.h"
#include "tensor/tensor.h"

/* The weights of a checkpoint, ready to be written. Owns what it opens. */
typedef struct hil_checkpoint_model hil_checkpoint_model;

/* `dir` is the checkpoint's folder; its checksums were checked. */
hil_status hil_checkpoint_model_open(hil_checkpoint_model **out, const char *dir);
void hil_checkpoint_model_close(hil_checkpoint_model *model);
/* What config.json says. */
hil_dtype hil_checkpoint_model_dtype(const hil_checkpoint_model *model);
int64_t hil_checkpoint_model_step(const hil_checkpoint_model *model);
int64_t hil_checkpoint_model_tensors(const hil_checkpoint_model *model);

typedef struct hil_checkpoint_model_options {
    const char *out;          /* a folder that is there */
    const hil_lock *lock;     /* held on it; may be NULL */
    hil_model_names replaced; /* files that an old model in it may have; see model_folder.h */
    hil_dtype dtype;
    size_t shard_bytes;                /* 0: 5 GB */
    const hil_checkpoint_watch *watch; /* told of every piece that was written; may be NULL */
} hil_checkpoint_model_options;
/* The bytes of the weights' files. */
hil_status hil_checkpoint_model_bytes(hil_checkpoint_model *model,
                                      const hil_checkpoint_model_options *options, uint64_t *out);
/* Weights, config.json and the tokenizer's files: all or, after a failure, nothing of them. */
hil_status hil_checkpoint_model_write(hil_checkpoint_model *model,
                                      const hil_checkpoint_model_options *options);

#endif
