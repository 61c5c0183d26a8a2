/* io_faulty.c - an engine around another one that makes chosen operations go wrong. */
#include "io/io_faulty.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdatomic.h>

static atomic_long fail_at, seen;
static atomic_int fail_error;

typedef struct faulty {
    const hil_io_backend *inner;
    void *engine;
    hil_io_setup setup;
} faulty;

void hil_io_fail_at(long n, int error)
{
    atomic_store(&fail_error, error);
    atomic_store(&seen, 0);
    atomic_store(&fail_at, n);
}

long hil_io_fail_count(void)
{
    return atomic_load(&seen);
}

static hil_status create(void **out, const hil_io_backend *inner, const hil_io_setup *setup)
{
    *out = NULL;
    faulty *f;
    HIL_TRY(HIL_ALLOC(1, &f));
    *f = (faulty){.inner = inner, .setup = *setup};
    hil_status status = inner->create(&f->engine, setup);
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
    hil_free(f);
}

/* Whether the operation is not to be tried; op->result is set then. */
static bool spoil(hil_io_op *op)
{
    int error = atomic_load(&fail_error);
    if (atomic_fetch_add(&seen, 1) + 1 != atomic_load(&fail_at)) return false;
    bool passing = error == 0 || error == EAGAIN || error == EINTR;
    if (op->verb == HIL_IO_DO_SYNC && passing) return false;
    if (error == 0) {
        op->size = (op->size + 1) / 2; /* for one block, a part that no direct transfer continues */
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
        to = spoil(op) ? &bad : &good;
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
    if (atomic_load(&fail_at) == 0) return backend;
    return backend == &hil_io_backend_uring ? &on_uring : &on_threads;
}
