/* comm_engine.h - the parts of hil_comm, and the engine that moves bytes between ranks.

   [Note: broken] After hil_comm_break a comm stays broken: waiting calls and later ones fail, and
   the engine moves nothing more, so that no data arrives in memory that was freed meanwhile. */
#ifndef HIL_COMM_COMM_ENGINE_H
#define HIL_COMM_COMM_ENGINE_H

#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

/* The channels of comm.h, and one for the barrier in hil_comm_close. */
enum { HIL_CHANNEL_CLOSE = HIL_CHANNELS, HIL_CHANNEL_ALL };

enum {
    HIL_COMM_TEXT = 1024, /* bytes of a message for the user */
    HIL_COMM_PIECE = 4096 /* bytes of each rank in one gather of small calls */
};

typedef struct hil_comm_engine {
    const char *name;
    bool together; /* hil_comm_close is a barrier, because it finalizes MPI */
    void (*destroy)(hil_comm *comm);
    /* Both block, see [Note: channels]; when the comm breaks, they fail with any message. */
    hil_status (*gather)(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes);
    hil_status (*exchange)(hil_comm *comm, hil_channel channel, const void *out, void *in,
                           size_t bytes);
    /* Breaks the comms of all ranks. NULL: the heartbeat threads do that. */
    void (*fail)(hil_comm *comm, hil_status status, const char *message);
} hil_comm_engine;

struct hil_comm {
    const hil_comm_engine *engine; /* NULL: a comm of one rank needs none */
    void *state;                   /* owned by the engine */
    int rank, size, local_rank, local_size;
    unsigned char *scratch;          /* [HIL_CHANNELS][size][HIL_COMM_PIECE] */
    struct hil_heartbeat *heartbeat; /* NULL if the ranks are threads; see heartbeat.h */
    bool has_nccl_id;
    unsigned char nccl_id[HIL_COMM_NCCL_ID];

    atomic_bool broken; /* set after the next two fields */
    hil_status broken_status;
    char broken_text[HIL_COMM_TEXT];

    pthread_mutex_t lock;                     /* guards everything below */
    char agreed[HIL_CHANNELS][HIL_COMM_TEXT]; /* the last failure that all agreed on */
};

/* Allocates a comm without an engine. */
hil_status hil_comm_create(hil_comm **out);
/* Allocates what depends on rank and size. */
hil_status hil_comm_prepare(hil_comm *comm);
/* Starts the heartbeat thread. Called by every rank once its comm is prepared. Copies the options,
   whose functions are called on that thread. */
hil_status hil_comm_watch(hil_comm *comm, const hil_comm_options *options);
/* Makes waiting and later calls fail with `message`. Only the first call has an effect. Any thread.
 */
void hil_comm_break(hil_comm *comm, hil_status status, const char *message);

#endif
