/* checkpoint_saver.h - writes checkpoints while training continues. */
#ifndef HIL_FORMAT_CHECKPOINT_SAVER_H
#define HIL_FORMAT_CHECKPOINT_SAVER_H

#include "format/checkpoint.h"
#include "store/update.h"

#include <stdatomic.h>

/* [Note: saving] The sweep that ends step N passes its states to checkpoint N on the SAVE link's
   thread. That thread creates and finishes the files and removes old checkpoints, so training does
   not stall. A failure surfaces later: at the end of each step the ranks agree on hil_saver_check,
   and if any rank has failed, all stop with the writer's message. */
typedef struct hil_saver {
    /* Given; borrowed. */
    hil_checkpoint_options options; /* its step is the saver's own */
    /* Called before a checkpoint becomes whole, on every rank; may be NULL. */
    hil_status (*ready)(void *context);
    void *context;
    int64_t keep; /* checkpoints */
    /* The save in flight: owned by the SAVE link's thread until it is over. */
    bool active, begun;
    hil_checkpoint_writer *writer;
    json_t *state;
    int64_t best;  /* step of a checkpoint that is kept beside the newest; -1: none */
    int64_t saved; /* step of the newest whole checkpoint, -1: none; read after hil_saver_wait */
    atomic_int failed; /* hil_status; set after `message` */
    char message[1024];
} hil_saver;

/* Makes the next update pass its states to a checkpoint of `step`. Waits for the previous save. */
hil_status hil_saver_begin(hil_saver *saver, int64_t step);
/* Queues the end of the save: adds `state`, the run's own data, and makes the checkpoint whole.
   Then removes old ones, but not that of step `best`. Takes ownership of `state`. Does not wait. */
hil_status hil_saver_end(hil_saver *saver, json_t *state, int64_t best);
/* Returns the failure of a save, if any; does not wait. */
hil_status hil_saver_check(hil_saver *saver);
/* Waits for the save in flight; then saver->saved is its step. */
hil_status hil_saver_wait(hil_saver *saver);
/* Waits for the save in flight and abandons one without hil_saver_end. Call before the store is
   closed. */
void hil_saver_close(hil_saver *saver);

#endif
