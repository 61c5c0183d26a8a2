/* heart.h - who is alive: a thread per rank that watches the others, and the news of failures.

   [Note: hearts] Every rank and rank 0 tell each other twice a second that they live and what they
   do. A rank is lost when its socket closes without a word, or when nothing came from it for
   HIL_HEART_SILENCE seconds; time in which this process did not run itself (it was stopped, or the
   machine slept) does not count against others. Rank 0 tells the others when one is lost. The
   thread does nothing else, so a rank that computes for minutes on a crowded machine is alive. */
#ifndef HIL_COMM_HEART_H
#define HIL_COMM_HEART_H

#include "comm/comm.h"

#define HIL_HEART_SECONDS 0.5
#define HIL_HEART_SILENCE 5.0

typedef struct hil_heart hil_heart;

typedef struct hil_heart_options {
    /* Both are called on the heart's thread, `lost` at most once and last. A rank is lost: message
       for the user, NULL: another rank tells it. May be NULL. */
    void (*lost)(void *context, const char *message);
    void *lost_context;
    /* Every wait of this rank must end with this: a rank failed, or `lost` came back. */
    void (*failed)(void *context, hil_status status, const char *message);
    void *failed_context;
} hil_heart_options;

/* Every rank calls it. Borrows `comm` during the call only. */
hil_status hil_heart_start(hil_heart **out, hil_comm *comm, const hil_heart_options *options);
/* A normal end: waits until every rank came here, or after a failure for a few seconds. */
void hil_heart_stop(hil_heart *heart);

/* What this rank does from now on. */
void hil_heart_tell(hil_heart *heart, const char *what);
/* The machine of a rank. */
const char *hil_heart_host(const hil_heart *heart, int rank);
/* This rank failed: `failed` is called on all ranks with "rank R on HOST: MESSAGE"; here before
   this returns. */
void hil_heart_fail(hil_heart *heart, hil_status status, const char *message);

#endif
