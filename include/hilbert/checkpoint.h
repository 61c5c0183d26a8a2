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

/* Reads every byte, checks every checksum and prints on `out` what was checked: one checkpoint, or
   of a run's folder all of them and what names the newest, also when some are damaged. The failure
   names the file and the bytes of the newest damage; the observer is told of any other. */
HIL_API hil_status hil_checkpoint_verify_path(const char *path, bool json,
                                              const hil_observer *observer, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
