/* pool.c - threads that wait for a numbered list of tasks.

   [Note: claims] A thread claims the next task by lowering `open`, the number of tasks that nobody
   has claimed. What it then reads of the run is that run's: the next one begins only when `left` is
   0, and each thread lowers that by the tasks that it ran once it finds none to claim. So a run
   ends without the threads that were asleep, or had lost their core to another process, while the
   others did all of its tasks. */
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
    atomic_int_fast64_t open, left; /* [Note: claims] */
    atomic_int sleepers;            /* threads that wait for `wake` */
    atomic_bool waiting;            /* the caller waits for `idle` */
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
    int64_t ran = 0, open;
    for (; (open = atomic_fetch_sub(&pool->open, 1)) > 0; ++ran)
        pool->task(pool->context, pool->tasks - open, thread);
    if (!ran || atomic_fetch_sub(&pool->left, ran) != ran || !atomic_load(&pool->waiting)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->idle);
    pthread_mutex_unlock(&pool->lock);
}

static bool has_work(hil_pool *pool)
{
    return atomic_load(&pool->open) > 0 || atomic_load(&pool->stopping);
}

static void await_work(hil_pool *pool)
{
    for (int round = 0; round < SPIN_ROUNDS; ++round) {
        if (has_work(pool)) return;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!has_work(pool)) pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument)
{
    worker *self = argument;
    hil_pool *pool = self->pool;
    for (;;) {
        await_work(pool);
        if (atomic_load(&pool->stopping)) return NULL;
        take_tasks(pool, self->index);
    }
}

/* Of a thread that goes to sleep meanwhile, either it sees what there is to do, or this sees it. */
static void wake_threads(hil_pool *pool)
{
    if (!atomic_load(&pool->sleepers)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

/* Until all tasks are done. */
static void await_tasks(hil_pool *pool)
{
    for (int round = 0; round < SPIN_ROUNDS; ++round) {
        if (atomic_load(&pool->left) == 0) return;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->waiting, true);
    while (atomic_load(&pool->left) != 0) pthread_cond_wait(&pool->idle, &pool->lock);
    atomic_store(&pool->waiting, false);
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
    atomic_store(&pool->left, tasks);
    atomic_store(&pool->open, tasks);
    wake_threads(pool);
    take_tasks(pool, 0);
    await_tasks(pool);
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
