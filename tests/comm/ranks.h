/* ranks.h - runs one function on every rank of a comm of threads. */
#ifndef HIL_TESTS_COMM_RANKS_H
#define HIL_TESTS_COMM_RANKS_H

#include "check.h"
#include "comm/comm_threads.h"

#include <pthread.h>

enum { RANKS_MOST = 16 };

typedef struct ranks_thread {
    hil_comm *comm;
    void (*work)(hil_comm *comm, void *context);
    void *context;
} ranks_thread;

static inline void *ranks_begin(void *argument)
{
    const ranks_thread *t = argument;
    t->work(t->comm, t->context);
    return NULL;
}

/* Returns when all ranks are done. */
static inline void ranks_run(int size, void (*work)(hil_comm *comm, void *context), void *context)
{
    hil_comm *comms[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    ranks_thread arguments[RANKS_MOST];
    CHECK(size <= RANKS_MOST);
    CHECK_OK(hil_comm_threads_create(size, comms));
    for (int rank = 0; rank < size; ++rank) {
        arguments[rank] = (ranks_thread){comms[rank], work, context};
        CHECK(pthread_create(&threads[rank], NULL, ranks_begin, &arguments[rank]) == 0);
    }
    for (int rank = 0; rank < size; ++rank) CHECK(pthread_join(threads[rank], NULL) == 0);
    for (int rank = 0; rank < size; ++rank) hil_comm_close(comms[rank]);
}

#endif
