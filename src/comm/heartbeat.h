/* heartbeat.h - a thread per rank that detects lost ranks and spreads failures.

   [Note: heartbeats] Every rank and rank 0 send each other twice a second what they are doing. A
   rank is lost when its socket closes without a message, or when nothing arrives from it for
   HIL_HEARTBEAT_SILENCE seconds; time in which this process did not run itself (stopped, or the
   machine suspended) is not counted. Rank 0 reports a lost rank to the others. The thread does
   nothing else, so a rank that computes for minutes on a busy machine is not lost. */
#ifndef HIL_COMM_HEARTBEAT_H
#define HIL_COMM_HEARTBEAT_H

#include "comm/comm.h"

#define HIL_HEARTBEAT_SECONDS 0.5
#define HIL_HEARTBEAT_SILENCE 5.0

typedef struct hil_heartbeat hil_heartbeat;

typedef struct hil_heartbeat_options {
    /* Both are called on the heartbeat's thread. `lost`, at most once and last: a rank is lost;
       `message` is for the user, or NULL if another rank prints it. May be NULL. */
    void (*lost)(void *context, const char *message);
    void *lost_context;
    /* A rank failed, or `lost` returned: must end every wait of this rank with the message. */
    void (*failed)(void *context, hil_status status, const char *message);
    void *failed_context;
} hil_heartbeat_options;

/* Called by every rank. Copies the options; borrows `comm` during the call only. */
hil_status hil_heartbeat_start(hil_heartbeat **out, hil_comm *comm,
                               const hil_heartbeat_options *options);
/* Waits until every rank has called it, after a failure only for a few seconds; joins the thread.
 */
void hil_heartbeat_stop(hil_heartbeat *heartbeat);

/* Sets what this rank is doing; copied. Any thread. */
void hil_heartbeat_set_activity(hil_heartbeat *heartbeat, const char *what);
/* The host name of a rank. */
const char *hil_heartbeat_host(const hil_heartbeat *heartbeat, int rank);
/* Reports that this rank failed: `failed` is called on all ranks with "rank R on HOST: MESSAGE", on
   this rank before the call returns. */
void hil_heartbeat_fail(hil_heartbeat *heartbeat, hil_status status, const char *message);

#endif
