/* comm_engine.h - what an engine does for a hil_comm of several ranks. */
#ifndef HIL_COMM_COMM_ENGINE_H
#define HIL_COMM_COMM_ENGINE_H

#include "comm/comm.h"

#include <pthread.h>

typedef struct hil_comm_engine {
    const char *name;
    void (*destroy)(hil_comm *comm);
    /* These block, see [Note: channels]. */
    hil_status (*gather)(hil_comm *comm, hil_channel channel, const void *slice, void *whole,
                         size_t bytes);
    hil_status (*exchange)(hil_comm *comm, hil_channel channel, const void *out, void *in,
                           size_t bytes);
} hil_comm_engine;

struct hil_comm {
    const hil_comm_engine *engine;
    void *state; /* the engine's */
    int rank, size, local_rank, local_size;
};

#endif
