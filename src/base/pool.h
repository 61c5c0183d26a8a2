/* pool.h - a fixed set of threads that share one numbered list of tasks at a time. */
#ifndef HIL_BASE_POOL_H
#define HIL_BASE_POOL_H

#include "base/fail.h"

typedef struct hil_pool hil_pool;

/* `threads` counts the caller; 0 takes the CPUs this process may run on. */
hil_status hil_pool_create(hil_pool **out, int threads);
/* A pool for rehearsals: hil_pool_run runs nothing, and there is no scratch memory. Code that may
   get a dry pool accesses data only in tasks, or checks hil_pool_is_dry. */
hil_status hil_pool_create_dry(hil_pool **out);
bool hil_pool_is_dry(const hil_pool *pool);
void hil_pool_destroy(hil_pool *pool);

int hil_pool_threads(const hil_pool *pool);
/* CPUs that this process may run on. */
int hil_pool_cpus(void);

/* Runs task(context, i, thread) for every i in [0, tasks), on the caller's thread and the pool's
   own, and returns when all are done. Which thread runs which task is not fixed: the result of a
   task may depend on i only. `thread` is in [0, hil_pool_threads). Not reentrant: a task must not
   call it on the same pool. */
typedef void hil_task(void *context, int64_t i, int thread);
void hil_pool_run(hil_pool *pool, hil_task *task, void *context, int64_t tasks);

/* How much longer so many equal tasks take than if all threads were busy until the end: 4 tasks on
   3 threads take 1.5 times as long. */
double hil_pool_stretch(int64_t tasks, int threads);

/* Scratch memory of one thread, 64-byte aligned, kept between calls and grown when asked for more.
   Fails only when it must grow. Contents do not survive the task. */
hil_status hil_pool_reserve(hil_pool *pool, size_t bytes_per_thread);
void *hil_pool_scratch(const hil_pool *pool, int thread);

#endif
