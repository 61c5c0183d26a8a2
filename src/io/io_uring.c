/* io_uring.c - the fast engine: one thread that owns an io_uring. */
#include "io/io_backend.h"

#include "base/alloc.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FILES 64                       /* most registered files */
#define BUFFER_BYTES ((size_t)1 << 30) /* the kernel's limit for one registered buffer */
#define BUFFERS_MAX 1024
#define REFUSALS 5000 /* failed submissions, a millisecond apart, until operations fail */

#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif

/* [Note: one thread per ring]
   Only the ring's thread submits and reaps. The kernel completes a transfer on the thread that
   submitted it; a busy or descheduled caller would delay completions and leave the drive idle.
   Other threads put operations into `mail` and wake the ring's thread through an eventfd, on which
   it always has a read in flight. */
typedef struct uring {
    hil_io_setup setup;
    struct io_uring ring;
    bool has_ring, has_thread, has_buffers, has_files;
    pthread_t thread;
    int event;
    uint64_t event_count; /* target of the read of `event` */
    pthread_mutex_t lock; /* guards everything below */
    hil_io_op *mail, *mail_last;
    bool stopping;
    bool slot_taken[FILES];
} uring;

/* Index of the registered buffer that contains the operation's bytes, or -1. */
static int buffer_of(const uring *u, const hil_io_op *op)
{
    uintptr_t base = (uintptr_t)u->setup.buffer, at = (uintptr_t)op->bytes;
    if (!u->has_buffers || at < base || at - base >= u->setup.buffer_bytes) return -1;
    size_t first = (at - base) / BUFFER_BYTES, last = (at - base + op->size - 1) / BUFFER_BYTES;
    return first == last ? (int)first : -1;
}

static void prepare(uring *u, hil_io_op *op)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    assert(sqe); /* the ring has an entry for each operation of the depth */
    int fd = op->slot >= 0 ? op->slot : op->fd, buffer = buffer_of(u, op);
    unsigned size = (unsigned)op->size;
    if (op->verb == HIL_IO_DO_SYNC)
        io_uring_prep_fsync(sqe, fd, 0);
    else if (op->verb == HIL_IO_DO_READ && buffer >= 0)
        io_uring_prep_read_fixed(sqe, fd, op->bytes, size, op->offset, buffer);
    else if (op->verb == HIL_IO_DO_READ)
        io_uring_prep_read(sqe, fd, op->bytes, size, op->offset);
    else if (buffer >= 0)
        io_uring_prep_write_fixed(sqe, fd, op->bytes, size, op->offset, buffer);
    else
        io_uring_prep_write(sqe, fd, op->bytes, size, op->offset);
    if (op->slot >= 0) sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data(sqe, op);
}

static void await_mail(uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    assert(sqe);
    io_uring_prep_read(sqe, u->event, &u->event_count, sizeof u->event_count, 0);
    io_uring_sqe_set_data(sqe, NULL);
}

/* Prepares the operations in `mail`; false when the thread must end. */
static bool take_mail(uring *u)
{
    pthread_mutex_lock(&u->lock);
    hil_io_op *list = u->mail;
    bool stopping = u->stopping;
    u->mail = NULL;
    pthread_mutex_unlock(&u->lock);
    while (list) {
        hil_io_op *op = list;
        list = op->next;
        prepare(u, op);
    }
    return !stopping;
}

static hil_io_op *reap(uring *u)
{
    hil_io_op *list = NULL, **end = &list;
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;
    bool heard = false;
    io_uring_for_each_cqe(&u->ring, head, cqe)
    {
        hil_io_op *op = io_uring_cqe_get_data(cqe);
        ++count;
        if (!op) {
            heard = true;
            continue;
        }
        op->result = cqe->res;
        op->next = NULL;
        *end = op;
        end = &op->next;
    }
    io_uring_cq_advance(&u->ring, count);
    if (heard) await_mail(u);
    return list;
}

/* Removes operations that the kernel has not accepted; they complete with `error`. The kernel reads
   the queue only at a submission, so its tail may be moved back. */
static hil_io_op *withdraw(uring *u, int error)
{
    struct io_uring_sq *sq = &u->ring.sq;
    unsigned waiting = io_uring_sq_ready(&u->ring), begin = sq->sqe_tail - waiting;
    hil_io_op *list = NULL, **end = &list;
    bool mail = false;
    for (unsigned i = 0; i < waiting; ++i) {
        const struct io_uring_sqe *sqe = &sq->sqes[(begin + i) & *sq->kring_mask];
        hil_io_op *op = (hil_io_op *)(uintptr_t)sqe->user_data;
        mail = mail || !op;
        if (!op) continue;
        op->result = error == -EAGAIN ? -EIO : error; /* EAGAIN would be retried */
        op->next = NULL;
        *end = op;
        end = &op->next;
    }
    sq->sqe_head = sq->sqe_tail = *sq->ktail = begin;
    if (mail) await_mail(u);
    return list;
}

/* A kernel short of memory refuses submissions for a while; prepared entries stay valid. */
static void *run(void *argument)
{
    uring *u = argument;
    int refused = 0;
    await_mail(u);
    while (take_mail(u)) {
        int got = io_uring_submit_and_wait(&u->ring, 1);
        refused = got < 0 && got != -EINTR ? refused + 1 : 0;
        hil_io_op *list = reap(u);
        if (!list && refused > REFUSALS) list = withdraw(u, got);
        if (list)
            u->setup.complete(u->setup.context, list);
        else if (refused)
            usleep(1000);
    }
    return NULL;
}

static void wake(uring *u)
{
    uint64_t one = 1;
    while (write(u->event, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static void submit(void *engine, hil_io_op *list)
{
    uring *u = engine;
    hil_io_op *last = list;
    while (last->next) last = last->next;
    pthread_mutex_lock(&u->lock);
    bool first = !u->mail;
    if (first)
        u->mail = list;
    else
        u->mail_last->next = list;
    u->mail_last = last;
    pthread_mutex_unlock(&u->lock);
    if (first && !pthread_equal(pthread_self(), u->thread)) wake(u);
}

static void destroy(void *engine)
{
    uring *u = engine;
    if (u->has_thread) {
        pthread_mutex_lock(&u->lock);
        u->stopping = true;
        pthread_mutex_unlock(&u->lock);
        wake(u);
        pthread_join(u->thread, NULL);
    }
    if (u->has_ring) io_uring_queue_exit(&u->ring);
    if (u->event >= 0) close(u->event);
    pthread_mutex_destroy(&u->lock);
    hil_free(u);
}

/* Registers files and buffers. Both only save time: a refusal is not a failure. */
static void register_all(uring *u)
{
    struct iovec piece[BUFFERS_MAX];
    unsigned count = 0;
    char *base = u->setup.buffer;
    size_t bytes = u->setup.buffer_bytes;
    for (size_t at = 0; at < bytes && count < BUFFERS_MAX; at += BUFFER_BYTES, ++count)
        piece[count] =
            (struct iovec){base + at, bytes - at < BUFFER_BYTES ? bytes - at : BUFFER_BYTES};
    u->has_buffers = count && bytes <= BUFFERS_MAX * BUFFER_BYTES &&
                     io_uring_register_buffers(&u->ring, piece, count) == 0;
    int files[FILES];
    for (int i = 0; i < FILES; ++i) files[i] = -1;
    u->has_files = io_uring_register_files(&u->ring, files, FILES) == 0;
}

static int open_ring(uring *u)
{
    unsigned entries = (unsigned)u->setup.depth + 1;
    int error = io_uring_queue_init(entries, &u->ring, IORING_SETUP_COOP_TASKRUN);
    if (error == -EINVAL) error = io_uring_queue_init(entries, &u->ring, 0);
    u->has_ring = error == 0;
    return -error;
}

static int start_thread(uring *u)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&u->thread, NULL, run, u);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    u->has_thread = error == 0;
    return error;
}

static hil_status create(void **out, const hil_io_setup *setup)
{
    *out = NULL;
    uring *u;
    HIL_TRY(HIL_ALLOC(1, &u));
    u->setup = *setup;
    pthread_mutex_init(&u->lock, NULL);
    u->event = eventfd(0, EFD_CLOEXEC);
    int error = u->event < 0 ? errno : open_ring(u);
    if (!error) {
        register_all(u);
        error = start_thread(u);
    }
    if (error) {
        destroy(u);
        return hil_fail(HIL_ERR_IO, "the system refuses io_uring: %s; choose the threads engine",
                        strerror(error));
    }
    *out = u;
    return HIL_OK;
}

static int add_file(void *engine, int fd)
{
    uring *u = engine;
    int slot = 0;
    pthread_mutex_lock(&u->lock);
    while (slot < FILES && u->slot_taken[slot]) ++slot;
    if (!u->has_files || slot == FILES ||
        io_uring_register_files_update(&u->ring, (unsigned)slot, &fd, 1) != 1)
        slot = -1;
    else
        u->slot_taken[slot] = true;
    pthread_mutex_unlock(&u->lock);
    return slot;
}

static void drop_file(void *engine, int slot)
{
    uring *u = engine;
    int none = -1;
    if (slot < 0) return;
    pthread_mutex_lock(&u->lock);
    /* A slot that cannot be cleared keeps its file and is not reused. */
    if (io_uring_register_files_update(&u->ring, (unsigned)slot, &none, 1) == 1)
        u->slot_taken[slot] = false;
    pthread_mutex_unlock(&u->lock);
}

static bool registered(const void *engine)
{
    return ((const uring *)engine)->has_buffers;
}

const hil_io_backend hil_io_backend_uring = {
    .name = "uring",
    .create = create,
    .destroy = destroy,
    .submit = submit,
    .add_file = add_file,
    .drop_file = drop_file,
    .registered = registered,
};
