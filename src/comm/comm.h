/* comm.h - collective calls of the ranks. Everywhere, a NULL comm is a run of one rank.

   [Note: channels] On each channel every rank makes the same calls in the same order, one thread at
   a time. Channels are independent. A call returns when this rank's part is complete, or fails with
   the message of a rank that called hil_comm_fail. */
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

/* The program's id for NCCL; NULL: it gave none. */
const unsigned char *hil_comm_nccl_id(const hil_comm *comm);

/* All-gather: `whole` gets the slices of all ranks, rank r's at r * bytes. `slice` may already be
   at its place in `whole`. */
hil_status hil_comm_gather(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                           size_t bytes);
/* All-to-all: sends piece r of `out` (at r * bytes) to rank r, and receives piece r of `in` from
 * it.
 */
hil_status hil_comm_exchange(hil_comm *comm, hil_channel channel, const void *out, void *in,
                             size_t bytes);
/* Copies rank 0's data to all ranks. For small data. */
hil_status hil_comm_broadcast(hil_comm *comm, hil_channel channel, void *data, size_t bytes);

/* All-reduce on HIL_CHANNEL_CONTROL, element by element, with the same bits on every rank: sum in
   the order of ranks; minimum; bitwise OR. */
hil_status hil_comm_sum(hil_comm *comm, double *value, size_t count);
hil_status hil_comm_least(hil_comm *comm, double *value, size_t count);
hil_status hil_comm_any(hil_comm *comm, unsigned char *bits, size_t bytes);

/* A barrier that shares failures: if `mine` is a failure on any rank, all ranks fail with the
   status and message of the lowest such rank. `flag` (may be NULL) becomes non-zero if it was on
   any rank.
 */
hil_status hil_comm_agree(hil_comm *comm, hil_channel channel, hil_status mine, int *flag);

/* Fails with the message of a failed rank, as all calls do from then on. Any thread. */
hil_status hil_comm_check(hil_comm *comm);

/* Sets what this rank is doing, for the message when it is lost. */
void hil_comm_set_activity(hil_comm *comm, const char *format, ...) HIL_PRINTF(2, 3);

#endif
