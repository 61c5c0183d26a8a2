/* checkpoint_saver.h - checkpoints that are written while training goes on. */
#ifndef HIL_RUN_CHECKPOINT_SAVER_H
#define HIL_RUN_CHECKPOINT_SAVER_H

#include "format/checkpoint.h"
#include "run/metrics.h"
#include "store/update.h"

#include <stdatomic.h>

/* [Note: saving] The sweep that ends step N gives its states to checkpoint N, on the thread of the
   link that saves; the files are begun there, finished there, and older ones are removed there. So
   training does not wait, and a failure is found later: all ranks know it at the end of the step
   in which the first one does (hil_saver_check), and stop together with the writer's message. */
typedef struct hil_saver {
    /* Given; borrowed. */
    hil_checkpoint_options options; /* its step is the saver's own */
    hil_metrics *metrics;           /* durable before a checkpoint is whole */
    int64_t keep;                   /* checkpoints */
    /* Of the save under way; the other thread's until it is over. */
    bool active, begun;
    hil_checkpoint_writer *writer;
    json_t *state;
    int64_t saved;     /* step of the newest whole checkpoint; -1: none. See hil_saver_wait */
    atomic_int failed; /* hil_status; the message is complete */
    char message[1024];
} hil_saver;

/* The next update saves, as the state of `step`. Waits for the save before it. */
hil_status hil_saver_begin(hil_saver *saver, int64_t step);
/* What the run knows beside its store; becomes the saver's. The checkpoint will be whole. */
hil_status hil_saver_end(hil_saver *saver, json_t *state);
/* Whether saving has failed. */
hil_status hil_saver_check(hil_saver *saver);
/* Waits until the last save is whole: saver->saved is its step. */
hil_status hil_saver_wait(hil_saver *saver);
/* Waits, and gives up a save that was not ended. While the store is open. */
void hil_saver_close(hil_saver *saver);

#endif
