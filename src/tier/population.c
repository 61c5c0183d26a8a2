/* population.c - pins and faults in pages in the background, on several threads. */
#include "tier/population.h"

#include "base/alloc.h"
#include "base/memory.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#define WORTH ((size_t)64 << 20) /* less needs no threads */
#define PIECE                                                                                      \
    ((size_t)2 << 20) /* most that a thread of lowest priority has to finish when it is stopped */
#define THREADS_MOST 16

struct hil_population {
    hil_population_task task;
    atomic_size_t next; /* bytes that threads have taken so far, or more */
    atomic_bool stopping;
    int threads;
    pthread_t thread[THREADS_MOST];
};

static void *populate(void *context)
{
    hil_population *p = context;
    const struct sched_param none = {0};
    while (p->task.pins && !atomic_load(&p->stopping) && hil_pins_pin_next(p->task.pins)) {
    }
    /* Nobody waits for the rest: it takes no time from the first step, which needs every core. */
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    for (size_t at; (at = atomic_fetch_add(&p->next, PIECE)) < p->task.bytes;) {
        size_t rest = p->task.bytes - at;
        if (madvise(p->task.memory + at, rest < PIECE ? rest : PIECE, MADV_POPULATE_WRITE) != 0)
            break;
    }
    return NULL;
}

hil_status hil_population_begin(hil_population **out, const hil_population_task *task)
{
    sigset_t every, before;
    hil_population *p;
    int threads = task->threads < THREADS_MOST ? task->threads : THREADS_MOST;
    *out = NULL;
    if (task->bytes < WORTH && !task->pins) return HIL_OK;
    if (task->bytes < WORTH) threads = 1;
    HIL_TRY(HIL_ALLOC(1, &p));
    p->task = *task;
    atomic_init(&p->next, 0);
    atomic_init(&p->stopping, false);
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    while (p->threads < threads && !pthread_create(&p->thread[p->threads], NULL, populate, p))
        ++p->threads;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *out = p;
    return HIL_OK;
}

void hil_population_end(hil_population *population)
{
    if (!population) return;
    atomic_store(&population->stopping, true);
    atomic_store(&population->next, population->task.bytes);
    for (int i = 0; i < population->threads; ++i) pthread_join(population->thread[i], NULL);
    hil_free(population);
}
