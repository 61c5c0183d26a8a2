/* comm.h - ranks and what they do together. NULL is a run of one rank, everywhere.

   [Note: channels] On each channel every rank makes the same calls in the same order, one thread at
   a time. Channels do not wait for each other. A call returns when it is done here, or with the
   message of the rank that failed once one has said so (hil_comm_fail). */
#ifndef HIL_COMM_COMM_H
#define HIL_COMM_COMM_H

#include "base/fail.h"
#include "hilbert/comm.h"

#include <stddef.h>

typedef enum hil_channel {
    HIL_CHANNEL_CONTROL, /* the thread that trains */
    HIL_CHANNEL_GATHER,  /* weights */
    HIL_CHANNEL_REDUCE,  /* gradients */
    HIL_CHANNEL_SAVE,    /* checkpoints */
    HIL_CHANNELS
} hil_channel;

/* Ranks on the same machine. */
int hil_comm_local_rank(const hil_comm *comm);
int hil_comm_local_size(const hil_comm *comm);

/* `whole` becomes the slices of all ranks, rank r's at r * bytes. `slice` may lie in its place
   there already. */
hil_status hil_comm_gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                           size_t bytes);
/* Piece r of `out` (at r * bytes) goes to rank r; piece r of `in` came from there. */
hil_status hil_comm_exchange(hil_comm *comm, hil_channel channel, const void *out, void *in,
                             size_t bytes);
/* What rank 0 has, everywhere. For small things. */
hil_status hil_comm_broadcast(hil_comm *comm, hil_channel channel, void *data, size_t bytes);

/* Element by element, the same bits on every rank: added in the order of ranks; the least; OR. On
   HIL_CHANNEL_CONTROL. */
hil_status hil_comm_sum(hil_comm *comm, double *value, size_t count);
hil_status hil_comm_least(hil_comm *comm, double *value, size_t count);
hil_status hil_comm_any(hil_comm *comm, unsigned char *bits, size_t bytes);

/* Every rank comes here with how it fared: where one failed, all get the status and the message of
   the first that did. `flag` (may be NULL) becomes non-zero where it was for any rank. Also a
   barrier. */
hil_status hil_comm_agree(hil_comm *comm, hil_channel channel, hil_status mine, int *flag);

/* Fails once a rank has failed, with its message, as all calls do from then on. Any thread. */
hil_status hil_comm_check(hil_comm *comm);

/* What this rank does from now on, for the message when it is lost. */
void hil_comm_set_activity(hil_comm *comm, const char *format, ...) HIL_PRINTF(2, 3);

#endif
