/* checkpoint.h - everything a run needs to go on, at one step, independent of ranks and placement.

   FOLDER/step-N/ holds master.safetensors, and moment1.safetensors and moment2.safetensors of those
   parameters that have them (fp32, in the parameters' own layout), the model's config.json and
   tokenizer files, and manifest.json: the run's state, and checksums of every byte of every file
   and of itself. FOLDER/latest names the newest whole one.

   [Note: several ranks] With a comm every function that takes one is called by all ranks, and all
   get the same status and message. FOLDER is one folder that all of them see. */
#ifndef HIL_FORMAT_CHECKPOINT_H
#define HIL_FORMAT_CHECKPOINT_H

#include "base/json.h"
#include "comm/comm.h"
#include "format/model_files.h"
#include "store/state.h"

typedef struct hil_checkpoint_options {
    const char *folder; /* of all checkpoints */
    int64_t step;
    hil_store *store;     /* borrowed until finish or abandon, like the comm */
    hil_comm *comm;       /* NULL: alone */
    const hil_lock *lock; /* held on the run's folder, checked before names change; NULL: none */
    const hil_model_files *files; /* of the model, borrowed as well; rank 0's; NULL: none */
} hil_checkpoint_options;

/* One checkpoint on its way to the disk. begin and finish talk on HIL_CHANNEL_SAVE. */
typedef struct hil_checkpoint_writer hil_checkpoint_writer;

/* Reserves the space of all files under a temporary name. A checkpoint of that step that is there
   already is refused. */
hil_status hil_checkpoint_begin(hil_checkpoint_writer **out, const hil_checkpoint_options *options);
/* Writes elements [first, first + count) of a state, which no other call and no other rank gives.
   On any one thread at a time. After a failure it does nothing and fails again. */
hil_status hil_checkpoint_put(void *writer, hil_param *param, hil_state state, int64_t first,
                              int64_t count, const float *data);
/* Data first, made durable, then its name, then `latest`. `state` (borrowed) counts on rank 0. When
   any rank failed, here or in put, nothing is left of it and the previous one is the newest still.
   Destroys the writer in any case. */
hil_status hil_checkpoint_finish(hil_checkpoint_writer *writer, const json_t *state);
/* Ends it without the other ranks, after a failure elsewhere: closes the files; rank 0 removes
   them. NULL is fine. */
void hil_checkpoint_abandon(hil_checkpoint_writer *writer);

/* The newest whole checkpoint: the one `latest` names, or an older one when that is damaged (then
   `warning` says what is wrong with it). *step is -1 where there is none. Ranks share the reading.
 */
typedef struct hil_checkpoint_found {
    int64_t step;
    char warning[1024];
} hil_checkpoint_found;
hil_status hil_checkpoint_find(const char *folder, hil_comm *comm, hil_checkpoint_found *out);

/* The state of a checkpoint; the caller releases it with json_decref. Its own checksum is checked.
 */
hil_status hil_checkpoint_state(const char *folder, int64_t step, json_t **state);
/* Reads the model's files that a checkpoint holds, as far as `files` has none of them. */
hil_status hil_checkpoint_files(const char *folder, int64_t step, hil_model_files *files);
/* Fills what this rank holds of the store. The checksums were checked by hil_checkpoint_find. */
hil_status hil_checkpoint_load(const char *folder, int64_t step, hil_store *store);
/* The rest is for one rank. */

/* Makes step N, a whole one, the newest: `latest` names it and those after it are removed.
   Files of others in them are kept in step-M.rest. */
hil_status hil_checkpoint_return_to(const char *folder, int64_t step);
/* Removes what killed runs left unfinished, and all but the `keep` newest checkpoints. The one
   that `latest` names always stays; files of others in those that go are kept in step-N.rest. Not
   while one is being written. */
hil_status hil_checkpoint_tidy(const char *folder, int64_t keep);
/* The path of something in the folder that was not written as part of a checkpoint; "": none. */
hil_status hil_checkpoint_foreign(const char *folder, char out[HIL_PATH_MAX]);
/* How many checkpoints the folder holds. */
hil_status hil_checkpoint_count(const char *folder, int64_t *out);
/* The bytes of one checkpoint; `files` are those of the model that it will hold, or NULL. */
uint64_t hil_checkpoint_bytes(const hil_store *store, const hil_model_files *files);

#endif
