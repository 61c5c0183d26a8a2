/* population.c - faults in pages in the background. */
#include "tier/population.h"

#include "base/alloc.h"
#include "base/memory.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#define PIECE ((size_t)64 << 20)
#define THREADS_MOST 16

struct hil_population {
    char *memory;
    size_t bytes;
    atomic_size_t next; /* bytes that threads have taken so far, or more */
    int threads;
    pthread_t thread[THREADS_MOST];
};

static void *populate(void *context)
{
    hil_population *p = context;
    for (size_t at; (at = atomic_fetch_add(&p->next, PIECE)) < p->bytes;) {
        size_t rest = p->bytes - at;
        if (madvise(p->memory + at, rest < PIECE ? rest : PIECE, MADV_POPULATE_WRITE) != 0) break;
    }
    return NULL;
}

hil_status hil_population_begin(hil_population **out, char *memory, size_t bytes, int threads)
{
    hil_population *p;
    sigset_t every, before;
    *out = NULL;
    if (bytes < PIECE) return HIL_OK;
    HIL_TRY(HIL_ALLOC(1, &p));
    p->memory = memory;
    p->bytes = bytes;
    atomic_init(&p->next, 0);
    if (threads > THREADS_MOST) threads = THREADS_MOST;
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
    atomic_store(&population->next, population->bytes);
    for (int i = 0; i < population->threads; ++i) pthread_join(population->thread[i], NULL);
    hil_free(population);
}
