/* pool.c - threads that wait for a numbered list of tasks. */
#include "base/pool.h"

#include "base/alloc.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large scratch memory is accessed with large strides: huge pages save TLB misses. */
#define HUGE_PAGE ((size_t)2 << 20)
#define SPIN_ROUNDS 2000

typedef struct worker {
    hil_pool *pool;
    int index;
    pthread_t thread;
    bool started;
    void *scratch;
} worker;

struct hil_pool {
    worker *workers;
    int threads;
    bool dry;
    size_t scratch_bytes;
    hil_task *task;
    void *context;
    int64_t tasks;
    atomic_int_fast64_t next;
    atomic_int busy;
    atomic_uint generation;
    atomic_bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_cond_t idle;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_tasks(hil_pool *pool, int thread)
{
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (i >= pool->tasks) return;
        pool->task(pool->context, i, thread);
    }
}

static unsigned await_work(hil_pool *pool, unsigned seen)
{
    for (int round = 0; round < SPIN_ROUNDS; ++round) {
        unsigned now = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    unsigned now;
    while ((now = atomic_load_explicit(&pool->generation, memory_order_acquire)) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return now;
}

static void *work(void *argument)
{
    worker *self = argument;
    hil_pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        seen = await_work(pool, seen);
        if (atomic_load(&pool->stopping)) return NULL;
        take_tasks(pool, self->index);
        if (atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_acq_rel) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->idle);
            pthread_mutex_unlock(&pool->lock);
        }
    }
}

static void wake_threads(hil_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->generation, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

int hil_pool_cpus(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

hil_status hil_pool_create(hil_pool **out, int threads)
{
    *out = NULL;
    if (threads < 0 || threads > 4096)
        return hil_fail(HIL_ERR_USAGE, "%d threads: expected 0 to 4096", threads);
    hil_pool *pool = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &pool));
    pool->threads = threads ? threads : hil_pool_cpus();
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->idle, NULL);
    HIL_TRY_DONE(HIL_ALLOC(pool->threads, &pool->workers));
    for (int i = 0; i < pool->threads; ++i) {
        worker *w = &pool->workers[i];
        *w = (worker){.pool = pool, .index = i};
        if (i == 0) continue;
        int error = pthread_create(&w->thread, NULL, work, w);
        if (error)
            HIL_TRY_DONE(
                hil_fail(HIL_ERR_MEMORY, "cannot start thread %d: %s", i, strerror(error)));
        w->started = true;
    }
    *out = pool;
    pool = NULL;
done:
    hil_pool_destroy(pool);
    return status;
}

hil_status hil_pool_create_dry(hil_pool **out)
{
    HIL_TRY(hil_pool_create(out, 1));
    (*out)->dry = true;
    return HIL_OK;
}

bool hil_pool_is_dry(const hil_pool *pool)
{
    return pool->dry;
}

void hil_pool_destroy(hil_pool *pool)
{
    if (!pool) return;
    if (pool->workers) {
        atomic_store(&pool->stopping, true);
        wake_threads(pool);
        for (int i = 0; i < pool->threads; ++i) {
            if (pool->workers[i].started) pthread_join(pool->workers[i].thread, NULL);
            free(pool->workers[i].scratch);
        }
    }
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    hil_free(pool->workers);
    hil_free(pool);
}

int hil_pool_threads(const hil_pool *pool)
{
    return pool->threads;
}

void hil_pool_run(hil_pool *pool, hil_task *task, void *context, int64_t tasks)
{
    if (pool->dry) return;
    if (pool->threads == 1 || tasks <= 1) {
        for (int64_t i = 0; i < tasks; ++i) task(context, i, 0);
        return;
    }
    pool->task = task;
    pool->context = context;
    pool->tasks = tasks;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->busy, pool->threads - 1, memory_order_relaxed);
    wake_threads(pool);
    take_tasks(pool, 0);
    for (int round = 0; round < SPIN_ROUNDS; ++round) {
        if (atomic_load_explicit(&pool->busy, memory_order_acquire) == 0) return;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->busy, memory_order_acquire) != 0)
        pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

double hil_pool_stretch(int64_t tasks, int threads)
{
    if (tasks < 1 || threads <= 1) return 1;
    int64_t turns = (tasks + threads - 1) / threads;
    return (double)(turns * threads) / (double)tasks;
}

hil_status hil_pool_reserve(hil_pool *pool, size_t bytes_per_thread)
{
    if (pool->dry || bytes_per_thread <= pool->scratch_bytes) return HIL_OK;
    size_t page = bytes_per_thread < HUGE_PAGE ? 4096 : HUGE_PAGE;
    size_t bytes = (bytes_per_thread + page - 1) & ~(page - 1);
    for (int i = 0; i < pool->threads; ++i) {
        void *grown = hil_alloc_refused() ? NULL : aligned_alloc(page, bytes);
        if (!grown)
            return hil_fail(HIL_ERR_MEMORY, "out of memory: %zu bytes of scratch per thread",
                            bytes);
        if (page == HUGE_PAGE) (void)madvise(grown, bytes, MADV_HUGEPAGE);
        free(pool->workers[i].scratch);
        pool->workers[i].scratch = grown;
    }
    pool->scratch_bytes = bytes;
    return HIL_OK;
}

void *hil_pool_scratch(const hil_pool *pool, int thread)
{
    return pool->workers[thread].scratch;
}
