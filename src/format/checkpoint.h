/* checkpoint.h - everything a run needs to go on, at one step, independent of placement.

   FOLDER/step-N/ holds master.safetensors, and moment1.safetensors and moment2.safetensors of those
   parameters that have them (fp32, in the parameters' own layout), and manifest.json: the run's
   state, and a checksum of every file and of itself. FOLDER/latest names the newest whole one. */
#ifndef HIL_FORMAT_CHECKPOINT_H
#define HIL_FORMAT_CHECKPOINT_H

#include "base/json.h"
#include "store/store.h"

/* Writes FOLDER/step-N and moves `latest` to it: data first, made durable, then its name, then the
   pointer. `state` is borrowed. A whole checkpoint of that step is left as it is. */
hil_status hil_checkpoint_save(const char *folder, int64_t step, hil_store *store,
                               const json_t *state);

/* The newest whole checkpoint: the one `latest` names, or an older one when that is damaged (then
   `warning` says what is wrong with it). *step is -1 where there is none. */
typedef struct hil_checkpoint_found {
    int64_t step;
    char warning[1024];
} hil_checkpoint_found;
hil_status hil_checkpoint_find(const char *folder, hil_checkpoint_found *out);

/* The state of a checkpoint; the caller releases it with json_decref. Its own checksum is checked.
 */
hil_status hil_checkpoint_state(const char *folder, int64_t step, json_t **state);
/* Fills the store. The checksums were checked by hil_checkpoint_find. */
hil_status hil_checkpoint_load(const char *folder, int64_t step, hil_store *store);
/* Makes step N, a whole one, the newest: `latest` names it and those after it are removed. */
hil_status hil_checkpoint_return_to(const char *folder, int64_t step);
/* Reads every byte and checks every checksum. */
hil_status hil_checkpoint_verify(const char *folder, int64_t step);

/* Removes what killed runs left unfinished, and all but the `keep` newest whole checkpoints. The
   one that `latest` names always stays. */
hil_status hil_checkpoint_tidy(const char *folder, int64_t keep);

/* How many checkpoints the folder holds. */
hil_status hil_checkpoint_count(const char *folder, int64_t *out);
/* The bytes of one checkpoint. */
uint64_t hil_checkpoint_bytes(const hil_store *store);

#endif
