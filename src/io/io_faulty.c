/* io_faulty.c - an engine around another one that makes chosen operations fail, or all slow. */
#include "io/io_faulty.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static atomic_long fail_at, seen;
static atomic_int fail_error;
static _Atomic double speed;

typedef struct faulty {
    const hil_io_backend *inner;
    void *engine;
    hil_io_setup setup;
    pthread_mutex_t lock;
    double busy_until;
} faulty;

void hil_io_fail_at(long n, int error)
{
    atomic_store(&fail_error, error);
    atomic_store(&seen, 0);
    atomic_store(&fail_at, n);
}

void hil_io_throttle(double bytes_per_second)
{
    atomic_store(&speed, bytes_per_second);
}

long hil_io_fail_count(void)
{
    return atomic_load(&seen);
}

/* Completes operations when a drive of this speed would have moved them in sequence. */
static void complete_late(void *context, hil_io_op *list)
{
    faulty *f = context;
    double bytes = 0, rate = atomic_load(&speed), now = hil_clock_now();
    for (const hil_io_op *op = list; op; op = op->next)
        if (op->result > 0) bytes += (double)op->result;
    if (rate > 0) {
        pthread_mutex_lock(&f->lock);
        if (f->busy_until < now) f->busy_until = now;
        f->busy_until += bytes / rate;
        double wait = f->busy_until - now;
        pthread_mutex_unlock(&f->lock);
        struct timespec rest = {(time_t)wait, (long)((wait - (double)(time_t)wait) * 1e9)};
        nanosleep(&rest, NULL);
    }
    f->setup.complete(f->setup.context, list);
}

static hil_status create(void **out, const hil_io_backend *inner, const hil_io_setup *setup)
{
    *out = NULL;
    faulty *f;
    HIL_TRY(HIL_ALLOC(1, &f));
    *f = (faulty){.inner = inner, .setup = *setup};
    pthread_mutex_init(&f->lock, NULL);
    hil_io_setup around = *setup;
    around.complete = complete_late;
    around.context = f;
    hil_status status = inner->create(&f->engine, &around);
    if (status != HIL_OK) {
        hil_free(f);
        return status;
    }
    *out = f;
    return HIL_OK;
}

static hil_status create_on_uring(void **out, const hil_io_setup *setup)
{
    return create(out, &hil_io_backend_uring, setup);
}

static hil_status create_on_threads(void **out, const hil_io_setup *setup)
{
    return create(out, &hil_io_backend_threads, setup);
}

static void destroy(void *engine)
{
    faulty *f = engine;
    f->inner->destroy(f->engine);
    pthread_mutex_destroy(&f->lock);
    hil_free(f);
}

/* True if the operation must not be executed; then op->result is set. */
static bool inject_fault(hil_io_op *op)
{
    int error = atomic_load(&fail_error);
    if (atomic_fetch_add(&seen, 1) + 1 != atomic_load(&fail_at)) return false;
    bool transient = error == 0 || error == EAGAIN || error == EINTR;
    if (op->verb == HIL_IO_DO_SYNC && transient) return false;
    if (error == 0) {
        op->size =
            (op->size + 1) / 2; /* for one block: a size that a direct transfer cannot continue */
        return false;
    }
    op->result = -error;
    return true;
}

static void submit(void *engine, hil_io_op *list)
{
    faulty *f = engine;
    hil_io_op *good = NULL, *bad = NULL;
    while (list) {
        hil_io_op *op = list, **to;
        list = op->next;
        to = inject_fault(op) ? &bad : &good;
        op->next = *to;
        *to = op;
    }
    if (good) f->inner->submit(f->engine, good);
    if (bad) f->setup.complete(f->setup.context, bad);
}

static int add_file(void *engine, int fd)
{
    faulty *f = engine;
    return f->inner->add_file(f->engine, fd);
}

static void drop_file(void *engine, int slot)
{
    faulty *f = engine;
    f->inner->drop_file(f->engine, slot);
}

static bool registered(const void *engine)
{
    const faulty *f = engine;
    return f->inner->registered(f->engine);
}

static const hil_io_backend on_uring = {
    .name = "uring",
    .create = create_on_uring,
    .destroy = destroy,
    .submit = submit,
    .add_file = add_file,
    .drop_file = drop_file,
    .registered = registered,
};
static const hil_io_backend on_threads = {
    .name = "threads",
    .create = create_on_threads,
    .destroy = destroy,
    .submit = submit,
    .add_file = add_file,
    .drop_file = drop_file,
    .registered = registered,
};

const hil_io_backend *hil_io_faulty_around(const hil_io_backend *backend)
{
    if (atomic_load(&fail_at) == 0 && atomic_load(&speed) <= 0) return backend;
    return backend == &hil_io_backend_uring ? &on_uring : &on_threads;
}
