/* checkpoint.h - the state of a run after one step, independent of ranks and placement.

   FOLDER/step-N/ holds master.safetensors, and moment1.safetensors and moment2.safetensors of those
   parameters that have them (fp32, in the parameters' own layout), the model's config.json and
   tokenizer files, and manifest.json: the run's state, and checksums of every byte of every file
   and of itself. FOLDER/latest names the newest whole checkpoint.

   [Note: several ranks] All ranks call a function that takes a comm, and all get the same status
   and message. FOLDER is on a file system that all of them share. */
#ifndef HIL_FORMAT_CHECKPOINT_H
#define HIL_FORMAT_CHECKPOINT_H

#include "base/json.h"
#include "comm/comm.h"
#include "format/sidecar_files.h"
#include "store/state.h"

typedef struct hil_checkpoint_options {
    const char *folder; /* of all checkpoints */
    int64_t step;
    hil_store *store;     /* borrowed until finish or abandon, like the other pointers */
    hil_comm *comm;       /* NULL: one rank */
    const hil_lock *lock; /* held on the run's folder, checked before a rename; NULL: none */
    const hil_sidecar_files *files; /* of the model; used on rank 0; NULL: none */
} hil_checkpoint_options;

/* A checkpoint being written. begin and finish use HIL_CHANNEL_SAVE. */
typedef struct hil_checkpoint_writer hil_checkpoint_writer;

/* Creates all files at full size in a temporary folder. Fails if the step has a checkpoint. */
hil_status hil_checkpoint_begin(hil_checkpoint_writer **out, const hil_checkpoint_options *options);
/* Writes elements [first, first + count) of a state; each element is written once, by one rank.
   One thread at a time. After a failure, later calls do nothing and fail. */
hil_status hil_checkpoint_put(void *writer, hil_param *param, hil_state state, int64_t first,
                              int64_t count, const float *data);
/* Syncs the data, then renames the folder, then moves `latest`. `state` (borrowed) is used on rank
   0. If any rank failed, here or in put, the checkpoint is removed and the one before stays the
   newest. Always destroys the writer. */
hil_status hil_checkpoint_finish(hil_checkpoint_writer *writer, const json_t *state);
/* Ends the save without the other ranks, after a failure elsewhere: closes the files; rank 0
   removes them. NULL is fine. */
void hil_checkpoint_abandon(hil_checkpoint_writer *writer);

/* Finds the newest whole checkpoint: the one `latest` names, or an older one if that is damaged
   (`warning` then says how). step is -1 if there is none. Ranks share the verification. */
typedef struct hil_checkpoint_found {
    int64_t step;
    char warning[1024];
} hil_checkpoint_found;
hil_status hil_checkpoint_find(const char *folder, hil_comm *comm, hil_checkpoint_found *out);

/* The run's state in a checkpoint; the caller releases it with json_decref. Verifies the manifest's
   checksum. */
hil_status hil_checkpoint_state(const char *folder, int64_t step, json_t **state);
/* Reads from a checkpoint those files of the model that `files` lacks. */
hil_status hil_checkpoint_files(const char *folder, int64_t step, hil_sidecar_files *files);
/* Loads the states that this rank holds. Verifies no checksums: hil_checkpoint_find did. */
hil_status hil_checkpoint_load(const char *folder, int64_t step, hil_store *store);
/* Rank 0 alone calls the functions below. */

/* Makes `step`, a whole checkpoint, the newest: moves `latest` and removes later ones. Files in
   them that hilbert did not write are kept in step-M.rest. */
hil_status hil_checkpoint_return_to(const char *folder, int64_t step);
/* Removes unfinished files of killed runs, and all checkpoints but the `keep` newest, the one that
   `latest` names and that of step `best` (-1: none). Files in them that hilbert did not write are
   kept in step-N.rest. Do not call while a checkpoint is written. */
hil_status hil_checkpoint_tidy(const char *folder, int64_t keep, int64_t best);
/* The path of a file in the folder that hilbert did not write; "": none. */
hil_status hil_checkpoint_foreign(const char *folder, char out[HIL_PATH_MAX]);
hil_status hil_checkpoint_count(const char *folder, int64_t *out);
/* The most bytes that one checkpoint takes; `files` of the model are part of it, or NULL. */
uint64_t hil_checkpoint_bytes(const hil_store *store, const hil_sidecar_files *files);

#endif
