/* device_comm.c - the watch of a device comm: ends waits for a lost rank. */
#include "comm/device_comm.h"

#include "base/alloc.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define PAUSE 5000000L /* nanoseconds between checks of the comm */
#define PAUSES 20      /* between checks of the device comm */

struct hil_device_comm_watch {
    hil_device_comm *device_comm;
    hil_comm *comm;
    pthread_t thread;
    atomic_bool ending;
};

static void *watch(void *argument)
{
    struct hil_device_comm_watch *w = argument;
    for (int i = 1; !atomic_load(&w->ending); ++i) {
        bool ready, broken = hil_comm_check(w->comm) != HIL_OK;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
        if (!broken && i % PAUSES) continue;
        hil_status status = broken ? HIL_OK : w->device_comm->engine->poll(w->device_comm, &ready);
        if (!broken && status == HIL_OK) continue;
        hil_comm_fail(w->comm, status); /* before abandon, which makes queued calls look complete */
        w->device_comm->engine->abandon(w->device_comm);
        break;
    }
    return NULL;
}

/* The thread blocks all signals: handlers run on the program's own threads. */
hil_status hil_device_comm_watch_start(hil_device_comm_watch **out, hil_device_comm *device_comm,
                                       hil_comm *comm)
{
    hil_device_comm_watch *w;
    sigset_t every, before;
    HIL_TRY(HIL_ALLOC(1, &w));
    w->device_comm = device_comm;
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

void hil_device_comm_watch_stop(hil_device_comm_watch *w)
{
    if (!w) return;
    atomic_store(&w->ending, true);
    pthread_join(w->thread, NULL);
    hil_free(w);
}
