/* comm_engine.h - what an engine does for a hil_comm of several ranks.

   [Note: broken] A comm is whole until hil_comm_break, and broken ever after: calls that wait end,
   later ones do not begin, and the engine moves nothing any more, so that nothing arrives in
   memory which its owner has freed since. Whoever breaks a comm therefore tells the other ranks
   first. */
#ifndef HIL_COMM_COMM_ENGINE_H
#define HIL_COMM_COMM_ENGINE_H

#include "comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    HIL_COMM_TEXT = 1024,  /* bytes of a message for the user */
    HIL_COMM_PIECE = 4096, /* bytes of each rank that small calls gather at once */
    HIL_COMM_POST = 2048   /* bytes of the largest message that can be posted */
};

typedef struct hil_comm_engine {
    const char *name;
    void (*destroy)(hil_comm *comm);
    /* These block, see [Note: channels]; when the comm breaks, they fail with any message. */
    hil_status (*gather)(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes);
    hil_status (*exchange)(hil_comm *comm, hil_channel channel, const void *out, void *in,
                           size_t bytes);
    /* Small messages from any rank to any other, beside the channels, for one thread of each rank.
       Neither waits. post: false when too many are still on their way to that rank, or the comm is
       broken. poll: false when none has come; *size is the room, then what came. Messages from one
       rank arrive in order. */
    bool (*post)(hil_comm *comm, int to, const void *message, size_t size);
    bool (*poll)(hil_comm *comm, int *from, void *message, size_t *size);
    /* Breaks the comms of all ranks. NULL: the heartbeat carries it to them. */
    void (*fail)(hil_comm *comm, hil_status status, const char *message);
} hil_comm_engine;

struct hil_comm {
    const hil_comm_engine *engine; /* NULL: a comm of one rank needs none */
    void *state;                   /* the engine's */
    void *module;                  /* the library that holds the engine, or NULL */
    int rank, size, local_rank, local_size;
    unsigned char *scratch; /* [HIL_CHANNELS][size][HIL_COMM_PIECE] */
    struct hil_heart *heart;
    void (*lost)(void *context, const char *message);
    void *context;

    atomic_bool broken; /* after these two were written */
    hil_status broken_status;
    char broken_text[HIL_COMM_TEXT];

    pthread_mutex_t lock; /* for the rest */
    char doing[HIL_COMM_TEXT];
    char agreed[HIL_CHANNELS][HIL_COMM_TEXT]; /* the last failure that all agreed on */
};

/* What every comm has, around its engine. */
hil_status hil_comm_create(hil_comm **out);
/* Once rank and size are known. */
hil_status hil_comm_prepare(hil_comm *comm);
/* The first call decides; `message` is what waiting and later calls fail with. Any thread. */
void hil_comm_break(hil_comm *comm, hil_status status, const char *message);

#endif
