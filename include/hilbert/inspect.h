/* inspect.h - what is in a model folder, a checkpoint or a .safetensors file. */
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
    const char *name, *dtype; /* the dtype as the file has it: "F32", "BF16", ... */
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

/* A file of a checkpoint, with checksums for so many pieces. */
typedef struct hil_inspected_file {
    const char *name;
    uint64_t bytes;
    size_t pieces;
} hil_inspected_file;

/* The run behind a checkpoint. */
typedef struct hil_inspected_run {
    int64_t step, tokens, ranks;
    uint64_t bytes;
    const hil_inspected_file *file;
    size_t files;
    const char *options; /* as one JSON object; NULL: it does not say */
} hil_inspected_run;

/* What config.json says. */
typedef struct hil_inspected_config {
    const char *model_type;
    int64_t layers, hidden, intermediate, heads, kv_heads, head_dim, vocab, max_positions;
    bool tied;
} hil_inspected_config;

/* Owns everything it points to. */
typedef struct hil_inspection {
    const hil_inspected_tensor *tensor; /* of a checkpoint the master weights */
    size_t tensors;
    int64_t parameters;               /* of these tensors */
    uint64_t bytes;                   /* of all states */
    const hil_inspected_state *state; /* of a checkpoint */
    size_t states;                    /* 0: it is none */
    /* Of a checkpoint, and of a folder with a config.json. NULL where there is none, and where it
       is damaged or cannot be used: then the line beside it says why. */
    const hil_inspected_run *run;
    const char *run_error;
    const hil_inspected_config *config;
    const char *config_error;
} hil_inspection;

/* `path` is a model folder, a checkpoint folder or a .safetensors file; of a folder of checkpoints,
   or of a run that has not written its model yet, it is the newest. */
HIL_API hil_status hil_inspect_open(hil_inspection **out, const char *path);
HIL_API void hil_inspect_close(hil_inspection *inspection);

/* The same, printed: as a table, or as one JSON object. */
HIL_API hil_status hil_inspect(const char *path, bool json, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
