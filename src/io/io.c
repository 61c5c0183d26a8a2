/* io.c - requests: cuts them into pieces, keeps these in flight, resumes short transfers, and
   reports failures. */
#include "io/io.h"

#include "base/text.h"
#include "io/io_faulty.h"
#include "base/sized.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 4096
#define SPLIT_MAX ((size_t)1 << 30)
#define REQUESTS_MAX (1 << 20)
#define TRIES_AT_ONCE 16
#define TRIES_MAX 5000 /* a millisecond apart */
#define FILE_ENDS (-1) /* the file ended early; not an errno value */

void hil_io_sleep(hil_io *io)
{
    ++io->sleepers;
    pthread_cond_wait(&io->changed, &io->lock);
    --io->sleepers;
}

static void announce(hil_io *io)
{
    if (io->sleepers) pthread_cond_broadcast(&io->changed);
}

/* Chooses the next part of the piece for one transfer, and its descriptor: direct or cached. */
static void aim(hil_io_op *op)
{
    const hil_io_file *file = op->request->file;
    size_t before = op->offset % HIL_IO_ALIGN;
    bool parallel = ((uintptr_t)op->bytes - op->offset) % HIL_IO_ALIGN == 0;
    op->size = op->left;
    op->fd = file->fd;
    op->slot = file->slot;
    if (!file->direct || !parallel || op->verb == HIL_IO_DO_SYNC) return;
    if (before == 0 && op->left >= HIL_IO_ALIGN) {
        op->size = op->left - op->left % HIL_IO_ALIGN;
        op->fd = file->direct_fd;
        op->slot = file->direct_slot;
    } else if (op->size > HIL_IO_ALIGN - before) {
        op->size = HIL_IO_ALIGN - before;
    }
}

/* Pieces end at aligned offsets, so that only the first and the last can be unaligned. */
static size_t piece_size(const hil_io *io, const hil_io_request *request)
{
    size_t left = request->size - request->issued;
    size_t most = io->options.split - (request->offset + request->issued) % HIL_IO_ALIGN;
    return left < most ? left : most;
}

/* Fills the drive's idle operations with the next pieces; returns them as a list. */
static hil_io_op *next_pieces(hil_io_drive *drive)
{
    hil_io_op *list = NULL, **end = &list;
    while (drive->first && drive->idle) {
        hil_io_request *request = drive->first;
        hil_io_op *op = drive->idle;
        drive->idle = op->next;
        size_t size = piece_size(drive->io, request);
        *op = (hil_io_op){.verb = request->verb,
                          .bytes = request->bytes ? request->bytes + request->issued : NULL,
                          .offset = request->offset + request->issued,
                          .request = request,
                          .left = size};
        aim(op);
        request->issued += size;
        ++request->pieces;
        if (request->issued == request->size) drive->first = request->next;
        *end = op;
        end = &op->next;
    }
    return list;
}

static hil_status status_of(const hil_io_request *request)
{
    static const char *const verb[] = {"read", "write", "flush"};
    if (!request->error) return HIL_OK;
    char at[32], text[64];
    const char *why = request->error == FILE_ENDS ? "the file ends there"
                                                  : strerror_r(request->error, text, sizeof text);
    if (request->verb == HIL_IO_DO_SYNC)
        return hil_fail(HIL_ERR_IO, "cannot flush %s: %s", request->file->path, why);
    return hil_fail(HIL_ERR_IO, "cannot %s %s at %s: %s", verb[request->verb], request->file->path,
                    hil_text_bytes(at, request->error_offset), why);
}

static void release(hil_io *io, hil_io_request *request)
{
    request->next = io->idle;
    io->idle = request;
}

/* Keeps the message of a failed request without a handle for hil_io_wait_all. */
static void keep_failure(hil_io *io, const hil_io_request *request)
{
    if (io->failed_number && io->failed_number < request->number) return;
    if (status_of(request) == HIL_OK) return;
    io->failed_number = request->number;
    snprintf(io->failed, sizeof io->failed, "%s", hil_status_message());
}

static void finish(hil_io *io, hil_io_request *request)
{
    request->done = true;
    --request->file->busy;
    if (request->verb == HIL_IO_DO_WRITE) --request->file->writing;
    if (!request->handle) {
        --io->loose;
        if (request->error) keep_failure(io, request);
        release(io, request);
    } else if (!request->waiters) {
        ++io->stuck;
    }
    announce(io);
}

/* Removes the request from its drive's queue: no further piece is started. */
static void stop_issuing(hil_io_drive *drive, hil_io_request *request)
{
    if (request->issued == request->size) return;
    hil_io_request *before = NULL;
    for (hil_io_request *r = drive->first; r != request; r = r->next) before = r;
    if (before)
        before->next = request->next;
    else
        drive->first = request->next;
    if (drive->last == request) drive->last = before;
    request->issued = request->size;
}

static void fail_request(hil_io_drive *drive, const hil_io_op *op, int error)
{
    hil_io_request *request = op->request;
    if (!request->error || op->offset < request->error_offset) {
        request->error = error;
        request->error_offset = op->offset;
    }
    if (op->verb == HIL_IO_DO_SYNC) request->file->sync_error = error;
    stop_issuing(drive, request);
}

static void count_transfer(hil_io *io, const hil_io_op *op, size_t moved)
{
    const hil_io_file *file = op->request->file;
    if (op->verb == HIL_IO_DO_READ) io->counts.read_bytes += moved;
    if (op->verb == HIL_IO_DO_WRITE) io->counts.written_bytes += moved;
    if (file->direct && op->fd != file->direct_fd) io->counts.cached_bytes += moved;
}

/* Handles the result of one transfer: true when the operation continues with the rest of its piece.
 */
static bool complete_op(hil_io_drive *drive, hil_io_op *op)
{
    hil_io *io = drive->io;
    hil_io_file *file = op->request->file;
    int error = op->result < 0 ? (int)-op->result : 0;
    if (op->verb == HIL_IO_DO_SYNC) {
        if (error) fail_request(drive, op, error);
        return false;
    }
    if (op->result > 0) {
        size_t moved = (size_t)op->result;
        count_transfer(io, op, moved);
        if (moved < op->size) ++io->counts.resumed;
        op->bytes += moved;
        op->offset += moved;
        op->left -= moved;
        op->tries = 0;
        return op->left > 0 && !op->request->error;
    }
    if (error == EINVAL && op->fd == file->direct_fd) {
        file->direct = false; /* some file systems refuse O_DIRECT only now */
        return true;
    }
    if (!error && op->verb == HIL_IO_DO_READ) error = FILE_ENDS;
    bool passing = error == EAGAIN || error == EINTR || error == 0;
    if (passing && op->request->error) return false;
    if (passing && ++op->tries <= TRIES_AT_ONCE + TRIES_MAX) {
        ++io->counts.resumed;
        return true;
    }
    fail_request(drive, op, error ? error : EIO);
    return false;
}

static void complete(void *context, hil_io_op *list)
{
    hil_io_drive *drive = context;
    hil_io *io = drive->io;
    hil_io_op *again = NULL, **end = &again;
    bool patience = false;
    pthread_mutex_lock(&io->lock);
    while (list) {
        hil_io_op *op = list;
        list = op->next;
        op->next = NULL;
        if (complete_op(drive, op)) {
            patience |= op->tries > TRIES_AT_ONCE;
            aim(op);
            *end = op;
            end = &op->next;
            continue;
        }
        hil_io_request *request = op->request;
        op->next = drive->idle;
        drive->idle = op;
        if (--request->pieces == 0 && request->issued == request->size) finish(io, request);
    }
    *end = next_pieces(drive);
    pthread_mutex_unlock(&io->lock);
    if (patience) usleep(1000);
    if (again) drive->backend->submit(drive->engine, again);
}

/* A slot for a new request; waits while another request can free one. */
static hil_status take_slot(hil_io *io, hil_io_request **out)
{
    while (!io->idle) {
        if (io->stuck == io->options.requests)
            return hil_fail(HIL_ERR_USAGE,
                            "all %d I/O requests are finished and nobody waits for them; wait for "
                            "some before more are started",
                            io->options.requests);
        hil_io_sleep(io);
    }
    *out = io->idle;
    io->idle = (*out)->next;
    return HIL_OK;
}

static void enqueue(hil_io_drive *drive, hil_io_request *request)
{
    request->next = NULL;
    if (drive->first)
        drive->last->next = request;
    else
        drive->first = request;
    drive->last = request;
}

/* Starts a request with the file, verb, bytes, offset and size of `plan`. */
static hil_status start(const hil_io_request *plan, hil_io_request **out)
{
    hil_io_file *file = plan->file;
    hil_io *io = file->io;
    hil_io_drive *drive = file->drive;
    hil_io_request *request = NULL;
    hil_io_op *list = NULL;
    pthread_mutex_lock(&io->lock);
    hil_status status = take_slot(io, &request);
    if (status == HIL_OK) {
        *request = *plan;
        request->handle = out != NULL;
        request->number = ++io->started;
        ++file->busy;
        if (plan->verb == HIL_IO_DO_WRITE) ++file->writing;
        if (out) {
            ++file->handles;
            *out = request;
        } else {
            ++io->loose;
        }
        if (plan->size == 0 && plan->verb != HIL_IO_DO_SYNC) {
            finish(io, request);
        } else {
            enqueue(drive, request);
            list = next_pieces(drive);
        }
    }
    pthread_mutex_unlock(&io->lock);
    if (list) drive->backend->submit(drive->engine, list);
    return status;
}

static hil_status start_transfer(const hil_io_request *plan, hil_io_request **out)
{
    const hil_io_file *file = plan->file;
    bool reads = plan->verb == HIL_IO_DO_READ;
    if (out) *out = NULL;
    if (!(file->access & (reads ? HIL_IO_READ : HIL_IO_WRITE)))
        return hil_fail(HIL_ERR_USAGE, "cannot %s %s: it was not opened for that",
                        reads ? "read" : "write", file->path);
    if (plan->offset > INT64_MAX || plan->size > INT64_MAX - plan->offset)
        return hil_fail(HIL_ERR_USAGE, "cannot %s %s: no file reaches that far",
                        reads ? "read" : "write", file->path);
    return start(plan, out);
}

hil_status hil_io_read_start(hil_io_file *file, uint64_t offset, void *bytes, size_t size,
                             hil_io_request **out)
{
    return start_transfer(
        &(hil_io_request){
            .file = file, .verb = HIL_IO_DO_READ, .offset = offset, .bytes = bytes, .size = size},
        out);
}

hil_status hil_io_write_start(hil_io_file *file, uint64_t offset, const void *bytes, size_t size,
                              hil_io_request **out)
{
    return start_transfer(&(hil_io_request){.file = file,
                                            .verb = HIL_IO_DO_WRITE,
                                            .offset = offset,
                                            .bytes = (char *)(uintptr_t)bytes,
                                            .size = size},
                          out);
}

bool hil_io_is_done(hil_io_request *request)
{
    hil_io *io = request->file->io;
    pthread_mutex_lock(&io->lock);
    bool done = request->done;
    pthread_mutex_unlock(&io->lock);
    return done;
}

hil_status hil_io_wait(hil_io_request *request)
{
    hil_io *io = request->file->io;
    pthread_mutex_lock(&io->lock);
    if (request->done) --io->stuck;
    ++request->waiters;
    while (!request->done) hil_io_sleep(io);
    hil_status status = status_of(request);
    --request->file->handles;
    release(io, request);
    announce(io);
    pthread_mutex_unlock(&io->lock);
    return status;
}

hil_status hil_io_wait_all(hil_io *io)
{
    hil_status status = HIL_OK;
    pthread_mutex_lock(&io->lock);
    while (io->loose) hil_io_sleep(io);
    if (io->failed_number) status = hil_fail(HIL_ERR_IO, "%s", io->failed);
    io->failed_number = 0;
    pthread_mutex_unlock(&io->lock);
    return status;
}

hil_status hil_io_read(hil_io_file *file, uint64_t offset, void *bytes, size_t size)
{
    hil_io_request *request;
    HIL_TRY(hil_io_read_start(file, offset, bytes, size, &request));
    return hil_io_wait(request);
}

hil_status hil_io_write(hil_io_file *file, uint64_t offset, const void *bytes, size_t size)
{
    hil_io_request *request;
    HIL_TRY(hil_io_write_start(file, offset, bytes, size, &request));
    return hil_io_wait(request);
}

/* After a failed fsync the kernel marks the lost pages clean, so the next one would succeed: fsync
   is never repeated. */
hil_status hil_io_flush(hil_io_file *file)
{
    hil_io *io = file->io;
    hil_io_request *request, plan = {.file = file, .verb = HIL_IO_DO_SYNC};
    pthread_mutex_lock(&io->lock);
    while (file->writing) hil_io_sleep(io);
    plan.error = file->sync_error;
    pthread_mutex_unlock(&io->lock);
    HIL_TRY(status_of(&plan));
    HIL_TRY(start(&plan, &request));
    return hil_io_wait(request);
}

void hil_io_count(hil_io *io, hil_io_counts *out)
{
    pthread_mutex_lock(&io->lock);
    *out = io->counts;
    pthread_mutex_unlock(&io->lock);
}

static hil_status create_engine(hil_io_drive *drive)
{
    const hil_io *io = drive->io;
    hil_io_setup setup = {.depth = io->options.depth,
                          .buffer = io->buffers.base,
                          .buffer_bytes = io->buffers.bytes,
                          .complete = complete,
                          .context = drive};
    if (io->options.engine != HIL_IO_THREADS) {
        drive->backend = hil_io_faulty_around(&hil_io_backend_uring);
        hil_status status = drive->backend->create(&drive->engine, &setup);
        if (status != HIL_ERR_IO || io->options.engine == HIL_IO_URING) return status;
    }
    drive->backend = hil_io_faulty_around(&hil_io_backend_threads);
    return drive->backend->create(&drive->engine, &setup);
}

static void drive_destroy(hil_io_drive *drive)
{
    if (!drive) return;
    if (drive->engine) drive->backend->destroy(drive->engine);
    hil_free(drive->ops);
    hil_free(drive);
}

static hil_status drive_create(hil_io *io, hil_io_drive **out)
{
    hil_io_drive *drive = NULL;
    hil_status status;
    HIL_TRY_DONE(HIL_ALLOC(1, &drive));
    drive->io = io;
    HIL_TRY_DONE(HIL_ALLOC(io->options.depth, &drive->ops));
    for (int i = 0; i < io->options.depth; ++i) {
        drive->ops[i].next = drive->idle;
        drive->idle = &drive->ops[i];
    }
    HIL_TRY_DONE(create_engine(drive));
    *out = drive;
    drive = NULL;
done:
    drive_destroy(drive);
    return status;
}

hil_status hil_io_drive_find(hil_io *io, uint64_t device, hil_io_drive **out)
{
    hil_io_drive **end = &io->drives;
    hil_status status = HIL_OK;
    pthread_mutex_lock(&io->lock);
    for (; *end; end = &(*end)->next)
        if (!(*end)->bound || (*end)->device == device) break;
    if (!*end) status = drive_create(io, end);
    if (status == HIL_OK) {
        (*end)->device = device;
        (*end)->bound = true;
        *out = *end;
    }
    pthread_mutex_unlock(&io->lock);
    return status;
}

void hil_io_defaults_sized(hil_io_options *options, size_t size)
{
    const hil_io_options defaults = {.depth = 32, .split = 1 << 20, .requests = 1024};
    hil_sized_fill(options, size, &defaults, sizeof defaults);
}

static hil_status check_options(const hil_io_options *options)
{
    if (options->depth < 1 || options->depth > DEPTH_MAX)
        return hil_fail(HIL_ERR_USAGE, "an I/O depth of %d: expected 1 to %d", options->depth,
                        DEPTH_MAX);
    if (options->split == 0 || options->split > SPLIT_MAX || options->split % HIL_IO_ALIGN)
        return hil_fail(HIL_ERR_USAGE,
                        "I/O pieces of %zu bytes: expected a multiple of %d up to 1 GiB",
                        options->split, HIL_IO_ALIGN);
    if (options->requests < 1 || options->requests > REQUESTS_MAX)
        return hil_fail(HIL_ERR_USAGE, "%d I/O requests: expected 1 to %d", options->requests,
                        REQUESTS_MAX);
    return HIL_OK;
}

hil_status hil_io_create(hil_io **out, const hil_io_options *options)
{
    *out = NULL;
    hil_io *io = NULL;
    hil_io_options own;
    hil_status status;
    HIL_TRY_DONE(HIL_SIZED_TAKE(hil_io, &own, options));
    options = &own;
    HIL_TRY_DONE(check_options(options));
    HIL_TRY_DONE(HIL_ALLOC(1, &io));
    io->options = own;
    pthread_mutex_init(&io->lock, NULL);
    pthread_cond_init(&io->changed, NULL);
    HIL_TRY_DONE(HIL_ALLOC(options->requests, &io->slots));
    for (int i = options->requests; i-- > 0;) release(io, &io->slots[i]);
    HIL_TRY_DONE(hil_io_buffers_create(&io->buffers, options->buffer_bytes));
    HIL_TRY_DONE(drive_create(io, &io->drives));
    *out = io;
    io = NULL;
done:
    hil_io_destroy(io);
    return status;
}

void hil_io_destroy(hil_io *io)
{
    if (!io) return;
    assert(io->files == 0);
    while (io->drives) {
        hil_io_drive *drive = io->drives;
        io->drives = drive->next;
        drive_destroy(drive);
    }
    hil_io_buffers_destroy(&io->buffers);
    hil_free(io->slots);
    pthread_cond_destroy(&io->changed);
    pthread_mutex_destroy(&io->lock);
    hil_free(io);
}

const char *hil_io_engine(const hil_io *io)
{
    return io->drives->backend->name;
}

bool hil_io_buffers_registered(const hil_io *io)
{
    return io->drives->backend->registered(io->drives->engine);
}
