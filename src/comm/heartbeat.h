/* heartbeat.h - who is alive: a thread per rank that watches the others, and the news of failures.

   [Note: heartbeats] Every rank and rank 0 tell each other twice a second that they live and what
   they do. A rank is lost when its socket closes without a word, or when nothing came from it for
   HIL_HEARTBEAT_SILENCE seconds; time in which this process did not run itself (it was stopped, or
   the machine slept) does not count against others. Rank 0 tells the others when one is lost. The
   thread does nothing else, so a rank that computes for minutes on a crowded machine is alive. */
#ifndef HIL_COMM_HEARTBEAT_H
#define HIL_COMM_HEARTBEAT_H

#include "comm/comm.h"

#define HIL_HEARTBEAT_SECONDS 0.5
#define HIL_HEARTBEAT_SILENCE 5.0

typedef struct hil_heartbeat hil_heartbeat;

typedef struct hil_heartbeat_options {
    /* Both are called on the heartbeat's thread, `lost` at most once and last. A rank is lost:
       message for the user, NULL: another rank tells it. May be NULL. */
    void (*lost)(void *context, const char *message);
    void *lost_context;
    /* Every wait of this rank must end with this: a rank failed, or `lost` came back. */
    void (*failed)(void *context, hil_status status, const char *message);
    void *failed_context;
} hil_heartbeat_options;

/* Every rank calls it. Borrows `comm` during the call only. */
hil_status hil_heartbeat_start(hil_heartbeat **out, hil_comm *comm,
                               const hil_heartbeat_options *options);
/* A normal end: waits until every rank came here, or after a failure for a few seconds. */
void hil_heartbeat_stop(hil_heartbeat *heartbeat);

/* What this rank does from now on. */
void hil_heartbeat_set_activity(hil_heartbeat *heartbeat, const char *what);
/* The machine of a rank. */
const char *hil_heartbeat_host(const hil_heartbeat *heartbeat, int rank);
/* This rank failed: `failed` is called on all ranks with "rank R on HOST: MESSAGE"; here before
   this returns. */
void hil_heartbeat_fail(hil_heartbeat *heartbeat, hil_status status, const char *message);

#endif
