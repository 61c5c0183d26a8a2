/* heartbeat_star.h - the sockets of the heartbeats: one between every rank and rank 0. */
#ifndef HIL_COMM_HEARTBEAT_STAR_H
#define HIL_COMM_HEARTBEAT_STAR_H

#include "comm/comm.h"

#define HIL_HOST_NAME 64

typedef struct hil_star {
    int *socket;                 /* rank 0: [size], its own is -1; others: [1], to rank 0 */
    char (*host)[HIL_HOST_NAME]; /* [size] */
} hil_star;

/* Called by every rank, uses HIL_CHANNEL_CONTROL. The caller owns the contents of *star; all ranks
   fail together. */
hil_status hil_star_connect(hil_star *star, hil_comm *comm);
/* Closes the sockets that are not -1. */
void hil_star_free(hil_star *star, int size);

#endif
