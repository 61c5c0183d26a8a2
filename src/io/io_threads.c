/* io_threads.c - the engine that works everywhere: threads that call pread and pwrite. */
#include "io/io_backend.h"

#include "base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define STACK_BYTES (256 << 10)

typedef struct threads {
    hil_io_setup setup;
    pthread_mutex_t lock;
    pthread_cond_t work;
    hil_io_op *first, *last; /* queue of operations */
    bool stopping;
    int count;
    pthread_t *thread;
} threads;

static int64_t perform(const hil_io_op *op)
{
    ssize_t moved = 0;
    switch (op->verb) {
    case HIL_IO_DO_READ:
        moved = pread(op->fd, op->bytes, op->size, (off_t)op->offset);
        break;
    case HIL_IO_DO_WRITE:
        moved = pwrite(op->fd, op->bytes, op->size, (off_t)op->offset);
        break;
    case HIL_IO_DO_SYNC:
        moved = fsync(op->fd);
        break;
    }
    return moved < 0 ? -errno : moved;
}

static void *work(void *argument)
{
    threads *t = argument;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        hil_io_op *op = t->first;
        if (!op) {
            if (t->stopping) break;
            pthread_cond_wait(&t->work, &t->lock);
            continue;
        }
        t->first = op->next;
        pthread_mutex_unlock(&t->lock);
        op->next = NULL;
        op->result = perform(op);
        t->setup.complete(t->setup.context, op);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void destroy(void *engine)
{
    threads *t = engine;
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < t->count; ++i) pthread_join(t->thread[i], NULL);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    hil_free(t->thread);
    hil_free(t);
}

/* The threads block all signals: handlers run on the program's own threads. */
static int start_threads(threads *t)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (t->count < t->setup.depth && !error) {
        error = pthread_create(&t->thread[t->count], &attributes, work, t);
        if (!error) ++t->count;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t->count ? 0 : error; /* fewer threads only cost speed */
}

static hil_status create(void **out, const hil_io_setup *setup)
{
    *out = NULL;
    threads *t = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &t));
    t->setup = *setup;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    HIL_TRY_DONE(HIL_ALLOC(setup->depth, &t->thread));
    int error = start_threads(t);
    if (error)
        HIL_TRY_DONE(hil_fail(HIL_ERR_IO, "cannot start a thread for I/O: %s", strerror(error)));
    *out = t;
    t = NULL;
done:
    if (t) destroy(t);
    return status;
}

static void submit(void *engine, hil_io_op *list)
{
    threads *t = engine;
    hil_io_op *last = list;
    while (last->next) last = last->next;
    pthread_mutex_lock(&t->lock);
    if (t->first)
        t->last->next = list;
    else
        t->first = list;
    t->last = last;
    if (list == last)
        pthread_cond_signal(&t->work);
    else
        pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
}

static int add_file(void *engine, int fd)
{
    (void)engine, (void)fd;
    return -1;
}

static void drop_file(void *engine, int slot)
{
    (void)engine, (void)slot;
}

static bool registered(const void *engine)
{
    (void)engine;
    return false;
}

const hil_io_backend hil_io_backend_threads = {
    .name = "threads",
    .create = create,
    .destroy = destroy,
    .submit = submit,
    .add_file = add_file,
    .drop_file = drop_file,
    .registered = registered,
};
