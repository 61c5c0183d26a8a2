/* checkpoint_manifest.h - the files of a checkpoint and their checksums.

   [Note: manifest] The last member of manifest.json is the checksum of everything before it: the
   seal. Every file is listed with its size and with consecutive pieces that cover all of its bytes,
   each with a checksum. The pieces depend on the number of ranks that wrote them; the files do not.
 */
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

/* One file: pieces [first, first + pieces) of the manifest. Borrows `name` from `root`. */
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
    uint64_t bytes; /* of all files without the manifest */
} hil_manifest;

/* Validates all of `text`; `what` names it in errors. */
hil_status hil_manifest_parse(hil_manifest *out, const char *text, size_t size, const char *what);
/* Reads the manifest of a checkpoint's folder. A missing one is damage (HIL_ERR_INPUT) too. */
hil_status hil_manifest_open(hil_manifest *out, const char *dir);
void hil_manifest_close(hil_manifest *manifest);
/* NULL: no such file. */
const hil_manifest_file *hil_manifest_find(const hil_manifest *manifest, const char *name);

/* A manifest being written: begin, add every file, end; then `text` is the whole manifest. */
typedef struct hil_manifest_text {
    hil_text text;
    size_t files;
} hil_manifest_text;
hil_status hil_manifest_begin(hil_manifest_text *out, int64_t step);
/* The pieces are sorted and cover `size` bytes without gaps. */
hil_status hil_manifest_add(hil_manifest_text *out, const char *name, uint64_t size,
                            const hil_manifest_piece *piece, size_t pieces);
/* Adds the tensors' names in the order of the model, the run's state, and the seal. */
hil_status hil_manifest_end(hil_manifest_text *out, const hil_store *store, const json_t *state);
/* Adds the seal to a text that lacks only that; public for tests. */
hil_status hil_manifest_seal(hil_text *text);

/* Called for every piece that was read; a failure ends the reading with that status. */
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

/* checkpoint_read.c: reads every needed byte and verifies every checksum. Ranks share the reading
   and get the same status. `watch` may be NULL. */
hil_status hil_manifest_verify(const hil_manifest *manifest, const char *dir, hil_comm *comm,
                               hil_checkpoint_need need, const hil_checkpoint_watch *watch);

/* checkpoint_list.c */
hil_status hil_step_path(char out[HIL_PATH_MAX], const char *folder, int64_t step);
/* The number in "step-N", or -1. */
int64_t hil_step_parse(const char *name);
/* Moves `latest`, durably. */
hil_status hil_latest_write(const char *folder, int64_t step);
hil_status hil_latest_remove(const char *folder);
/* *step is -1 if there is no `latest`. A wrong checksum is damage (HIL_ERR_INPUT). */
hil_status hil_latest_read(const char *folder, int64_t *step);
/* Steps of the folder's checkpoints, the newest first; the caller frees them. */
hil_status hil_steps_list(const char *folder, int64_t **steps, size_t *count);
hil_status hil_checkpoint_find_needed(const char *folder, hil_comm *comm, hil_checkpoint_need need,
                                      const hil_checkpoint_watch *watch, hil_checkpoint_found *out);

#endif
