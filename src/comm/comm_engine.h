/* comm_engine.h - what an engine does for a hil_comm of several ranks.

   [Note: broken] A comm is whole until hil_comm_break, and broken ever after: calls that wait end,
   later ones do not begin, and the engine moves nothing any more, so that nothing arrives in
   memory which its owner has freed since. */
#ifndef HIL_COMM_COMM_ENGINE_H
#define HIL_COMM_COMM_ENGINE_H

#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

/* Beside those of comm.h, one that hil_comm_close uses: the last thing that ranks do together. */
enum { HIL_CHANNEL_CLOSE = HIL_CHANNELS, HIL_CHANNEL_ALL };

enum {
    HIL_COMM_TEXT = 1024, /* bytes of a message for the user */
    HIL_COMM_PIECE = 4096 /* bytes of each rank that small calls gather at once */
};

typedef struct hil_comm_engine {
    const char *name;
    bool together; /* ranks close their comms at the same time, because they end MPI there */
    void (*destroy)(hil_comm *comm);
    /* These block, see [Note: channels]; when the comm breaks, they fail with any message. */
    hil_status (*gather)(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes);
    hil_status (*exchange)(hil_comm *comm, hil_channel channel, const void *out, void *in,
                           size_t bytes);
    /* Breaks the comms of all ranks. NULL: the heartbeats carry it to them. */
    void (*fail)(hil_comm *comm, hil_status status, const char *message);
} hil_comm_engine;

struct hil_comm {
    const hil_comm_engine *engine; /* NULL: a comm of one rank needs none */
    void *state;                   /* the engine's */
    int rank, size, local_rank, local_size;
    unsigned char *scratch;          /* [HIL_CHANNELS][size][HIL_COMM_PIECE] */
    struct hil_heartbeat *heartbeat; /* of an engine with several processes, see heartbeat.h */

    atomic_bool broken; /* after these two were written */
    hil_status broken_status;
    char broken_text[HIL_COMM_TEXT];

    pthread_mutex_t lock;                     /* for the rest */
    char agreed[HIL_CHANNELS][HIL_COMM_TEXT]; /* the last failure that all agreed on */
};

/* What every comm has, around its engine. */
hil_status hil_comm_create(hil_comm **out);
/* Once rank and size are known. */
hil_status hil_comm_prepare(hil_comm *comm);
/* Starts the heartbeats, on every rank once its comm is prepared. */
hil_status hil_comm_watch(hil_comm *comm, const hil_comm_options *options);
/* The first call decides; `message` is what waiting and later calls fail with. Any thread. */
void hil_comm_break(hil_comm *comm, hil_status status, const char *message);

#endif
