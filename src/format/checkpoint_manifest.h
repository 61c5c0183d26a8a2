/* checkpoint_manifest.h - what a checkpoint's folder holds: its files and their checksums.

   [Note: manifest] manifest.json is sealed: its last member is the checksum of everything before
   it. Every file is listed with its size and with consecutive pieces that cover all of its bytes,
   each with a checksum. Who wrote a piece does not matter: another number of ranks cuts the same
   files into other pieces. */
#ifndef HIL_FORMAT_CHECKPOINT_MANIFEST_H
#define HIL_FORMAT_CHECKPOINT_MANIFEST_H

#include "base/text.h"
#include "format/checkpoint.h"
#include "store/state.h"

#define HIL_MANIFEST_VERSION 2
#define HIL_MANIFEST_FILE "manifest.json"
#define HIL_STEP_NAME 40

extern const char *const hil_state_file[HIL_STATES];

typedef struct hil_manifest_piece {
    uint64_t offset, bytes, hash;
} hil_manifest_piece;

/* One file: pieces [first, first + pieces) of the manifest. `name` lies in the manifest's JSON. */
typedef struct hil_manifest_file {
    const char *name;
    uint64_t size;
    size_t first, pieces;
} hil_manifest_file;

/* Owns everything it points to. */
typedef struct hil_manifest {
    json_t *root;
    int64_t step;
    hil_manifest_file *file;
    size_t files;
    hil_manifest_piece *piece;
    size_t pieces;
    uint64_t bytes; /* of all files, itself not counted */
} hil_manifest;

/* Nothing in `text` is trusted; `what` names it in errors. */
hil_status hil_manifest_parse(hil_manifest *out, const char *text, size_t size, const char *what);
/* The manifest in the folder of a checkpoint. A missing one is damage, like a wrong one. */
hil_status hil_manifest_open(hil_manifest *out, const char *dir);
void hil_manifest_close(hil_manifest *manifest);
/* NULL where there is no such file. */
const hil_manifest_file *hil_manifest_find(const hil_manifest *manifest, const char *name);

/* Writing: begin, every file, end; then `text` is a whole manifest. */
typedef struct hil_manifest_text {
    hil_text text;
    size_t files;
} hil_manifest_text;
hil_status hil_manifest_begin(hil_manifest_text *out, int64_t step);
/* `piece` is sorted, without gaps; it covers `size` bytes. */
hil_status hil_manifest_add(hil_manifest_text *out, const char *name, uint64_t size,
                            const hil_manifest_piece *piece, size_t pieces);
/* The tensors' names in the order of the model, and the run's state; then the seal. */
hil_status hil_manifest_end(hil_manifest_text *out, const hil_store *store, const json_t *state);
/* Ends a text that lacks only its last member; for tests of what lies before it. */
hil_status hil_manifest_seal(hil_text *text);

/* Told of every piece that was read; a failure stops the reading. */
typedef struct hil_checkpoint_watch {
    hil_status (*read)(void *context, uint64_t bytes);
    void *context;
} hil_checkpoint_watch;

/* Which files of a checkpoint are needed. */
typedef enum hil_checkpoint_need {
    HIL_NEED_ALL,
    HIL_NEED_MODEL, /* not the moments */
} hil_checkpoint_need;
bool hil_manifest_needs(const hil_manifest_file *file, hil_checkpoint_need need);

/* checkpoint_read.c: reads every byte that is needed and checks every checksum; ranks share the
   reading and agree. `watch` may be NULL.
 */
hil_status hil_manifest_verify(const hil_manifest *manifest, const char *dir, hil_comm *comm,
                               hil_checkpoint_need need, const hil_checkpoint_watch *watch);

/* checkpoint_list.c */
hil_status hil_step_path(char out[HIL_PATH_MAX], const char *folder, int64_t step);
/* The number in "step-N", or -1. */
int64_t hil_step_parse(const char *name);
/* Moves `latest`, durably. */
hil_status hil_latest_write(const char *folder, int64_t step);
hil_status hil_latest_remove(const char *folder);
/* -1: there is none. A pointer that is not as it was written is damage. */
hil_status hil_latest_read(const char *folder, int64_t *step);
/* Steps of the folder's checkpoints, the newest first; the caller frees them. */
hil_status hil_steps_list(const char *folder, int64_t **steps, size_t *count);
hil_status hil_checkpoint_find_needed(const char *folder, hil_comm *comm, hil_checkpoint_need need,
                                      const hil_checkpoint_watch *watch, hil_checkpoint_found *out);

#endif
