/* wire.c - the watch of a wire: ends waits for a lost rank. */
#include "comm/wire.h"

#include "base/alloc.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define PAUSE 5000000L /* nanoseconds between checks of the comm */
#define PAUSES 20      /* between checks of the wire */

struct hil_wire_watch {
    hil_wire *wire;
    hil_comm *comm;
    pthread_t thread;
    atomic_bool ending;
};

static void *watch(void *argument)
{
    struct hil_wire_watch *w = argument;
    for (int i = 1; !atomic_load(&w->ending); ++i) {
        bool ready, broken = hil_comm_check(w->comm) != HIL_OK;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
        if (!broken && i % PAUSES) continue;
        hil_status status = broken ? HIL_OK : w->wire->engine->poll(w->wire, &ready);
        if (!broken && status == HIL_OK) continue;
        hil_comm_fail(w->comm, status); /* before abandon, which makes queued calls look complete */
        w->wire->engine->abandon(w->wire);
        break;
    }
    return NULL;
}

/* The thread blocks all signals: handlers run on the program's own threads. */
hil_status hil_wire_watch_start(hil_wire_watch **out, hil_wire *wire, hil_comm *comm)
{
    hil_wire_watch *w;
    sigset_t every, before;
    HIL_TRY(HIL_ALLOC(1, &w));
    w->wire = wire;
    w->comm = comm;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int error = pthread_create(&w->thread, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        hil_free(w);
        return hil_fail(HIL_ERR_MEMORY, "cannot start a thread: %s", strerror(error));
    }
    *out = w;
    return HIL_OK;
}

void hil_wire_watch_stop(hil_wire_watch *w)
{
    if (!w) return;
    atomic_store(&w->ending, true);
    pthread_join(w->thread, NULL);
    hil_free(w);
}
