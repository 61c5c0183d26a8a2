/* checkpoint.h - checkpoints of a run, seen from outside: check them, turn them into models. */
#ifndef HILBERT_CHECKPOINT_H
#define HILBERT_CHECKPOINT_H

#include "hilbert/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A checkpoint is named by its own folder (OUT/checkpoints/step-N), or by OUT/checkpoints or OUT:
   then it is the newest whole one. */

/* A Hugging Face model folder from the checkpoint's files alone. Strings are borrowed. */
typedef struct hil_export_options {
    size_t size; /* set by hil_export_defaults */
    const char *checkpoint;
    const char *out;
    const char *dtype;        /* "fp32", "bf16", "fp16"; NULL: what the model's config.json says */
    uint64_t shard_size;      /* the most bytes of weights in one file; 0: 5 GB */
    bool overwrite;           /* `out` may hold a model, which is replaced */
    const volatile int *stop; /* becomes non-zero when the user wants to stop; may be NULL */
} hil_export_options;
HIL_API void hil_export_defaults_sized(hil_export_options *options, size_t size);
#define hil_export_defaults(options) hil_export_defaults_sized(options, sizeof *(options))
typedef struct hil_export_result {
    int64_t step, tensors;
    uint64_t bytes; /* of weights */
    const char *dtype;
} hil_export_result;
HIL_API hil_status hil_checkpoint_export(const hil_export_options *options,
                                         const hil_observer *observer, hil_export_result *result);

/* A checkpoint whose every byte was read and found to be right. */
typedef struct hil_whole_checkpoint {
    char *path;
    int64_t step, files, checksums;
    uint64_t bytes;
} hil_whole_checkpoint;

/* What a check found, the newest first; owns everything it points to. */
typedef struct hil_verified {
    hil_whole_checkpoint *whole;
    size_t whole_count;
    char **damage; /* lines that name a file and bytes in it */
    size_t damage_count;
} hil_verified;

/* Reads every byte and checks every checksum: of one checkpoint, or of a run's folder of all of
   them and of what names the newest. Damage is a result and no failure. */
HIL_API hil_status hil_checkpoint_verify(const char *path, const hil_observer *observer,
                                         hil_verified *out);
HIL_API void hil_verified_free(hil_verified *verified);

/* The same, printed: as lines, or as one JSON object. Damage is a failure, after that: with the
   line of the newest; the observer is told of any other. */
HIL_API hil_status hil_checkpoint_verify_path(const char *path, bool json,
                                              const hil_observer *observer, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
