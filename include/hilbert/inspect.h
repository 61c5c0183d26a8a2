/* inspect.h - what is in a model folder, a checkpoint, a .safetensors or .bin file. */
#ifndef HILBERT_INSPECT_H
#define HILBERT_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "hilbert/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hil_inspected_tensor {
    const char *name, *dtype; /* dtype as written in the file: "F32", "BF16", ... */
    int dims;
    const int64_t *shape;
    int64_t elements;
    uint64_t bytes;
} hil_inspected_tensor;

/* One kind of state of a checkpoint: "master" weights, "moment1", "moment2". */
typedef struct hil_inspected_state {
    const char *name;
    uint64_t bytes;
} hil_inspected_state;

/* A file of a checkpoint; each of its `pieces` has a checksum. */
typedef struct hil_inspected_file {
    const char *name;
    uint64_t bytes;
    size_t pieces;
} hil_inspected_file;

/* The run that wrote a checkpoint. */
typedef struct hil_inspected_run {
    int64_t step, tokens, ranks;
    uint64_t bytes;
    const hil_inspected_file *file;
    size_t files;
    const char *options; /* as one JSON object; NULL: not recorded */
} hil_inspected_run;

/* Contents of config.json. */
typedef struct hil_inspected_config {
    const char *model_type;
    int64_t layers, hidden, intermediate, heads, kv_heads, head_dim, vocab, max_positions;
    bool tied;
} hil_inspected_config;

/* Owns everything it points to. */
typedef struct hil_inspection {
    const hil_inspected_tensor *tensor; /* of a checkpoint: the master weights */
    size_t tensors;
    int64_t parameters; /* of these tensors */
    uint64_t bytes;     /* of all states */
    const hil_inspected_state *state;
    size_t states; /* 0: not a checkpoint */
    /* `run` is set for a checkpoint, `config` for a folder with a config.json. NULL if there is
       none, or if it is damaged or cannot be used: then the error line says why. */
    const hil_inspected_run *run;
    const char *run_error;
    const hil_inspected_config *config;
    const char *config_error;
} hil_inspection;

/* `path` is a model folder, a checkpoint folder, a .safetensors or .bin file. For a folder of
   checkpoints, or of a run that has not written its model yet, the newest checkpoint is opened. */
HIL_API hil_status hil_inspect_open(hil_inspection **out, const char *path);
HIL_API void hil_inspect_close(hil_inspection *inspection);

/* Prints the same as a table, or as one JSON object. */
HIL_API hil_status hil_inspect(const char *path, bool json, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
