/* checkpoint.h - verify the checkpoints of a run; export one as a model folder or a GGUF file. */
#ifndef HILBERT_CHECKPOINT_H
#define HILBERT_CHECKPOINT_H

#include "hilbert/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A path names a checkpoint by its own folder (OUT/checkpoints/step-N); OUT/checkpoints and OUT
   name the newest whole one. */

/* Options of hil_checkpoint_export. Strings are borrowed. */
typedef struct hil_export_options {
    size_t size; /* set by hil_export_defaults */
    const char *checkpoint;
    const char *out;
    const char *dtype;        /* "fp32", "bf16", "fp16"; NULL: that of the model's config.json */
    uint64_t shard_size;      /* largest size of a weights file in bytes; 0: 5 GB */
    bool overwrite;           /* replace a model in `out` */
    const volatile int *stop; /* a non-zero value asks to stop; may be NULL */
    /* `out` is a GGUF file for llama.cpp; dtype may also be "q8_0", `checkpoint` also a model
       folder without checkpoints. */
    bool gguf;
    bool deepspeed;    /* `checkpoint` is one of DeepSpeed, of ZeRO stage 1, 2 or 3 */
    const char *model; /* then the folder of config and tokenizer, which is required */
} hil_export_options;
HIL_API void hil_export_defaults_sized(hil_export_options *options, size_t size);
#define hil_export_defaults(options) hil_export_defaults_sized(options, sizeof *(options))
typedef struct hil_export_result {
    int64_t step, tensors; /* step -1: not from a checkpoint */
    uint64_t bytes;        /* of weights; with gguf of the file */
    const char *dtype;
} hil_export_result;
/* Writes a Hugging Face model folder, or a GGUF file; reads nothing but the checkpoint's files, and
   of `model`. */
HIL_API hil_status hil_checkpoint_export(const hil_export_options *options,
                                         const hil_observer *observer, hil_export_result *result);

/* A checkpoint whose checksums all match. */
typedef struct hil_whole_checkpoint {
    char *path;
    int64_t step, files, checksums;
    uint64_t bytes;
} hil_whole_checkpoint;

/* Result of a verification, newest checkpoint first. Owns everything it points to. */
typedef struct hil_verified {
    hil_whole_checkpoint *whole;
    size_t whole_count;
    char **damage; /* lines that name a file and a range of bytes */
    size_t damage_count;
} hil_verified;

/* Reads every byte and compares every checksum of one checkpoint; for the folder of a run, of all
   its checkpoints, and checks the file `latest`. Damage is part of the result, not a failure. */
HIL_API hil_status hil_checkpoint_verify(const char *path, const hil_observer *observer,
                                         hil_verified *out);
HIL_API void hil_verified_free(hil_verified *verified);

/* Prints the same as lines, or as one JSON object. Damage then makes it fail: the message is the
   newest checkpoint's damage; further damage goes to the observer's `note`. */
HIL_API hil_status hil_checkpoint_verify_path(const char *path, bool json,
                                              const hil_observer *observer, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
