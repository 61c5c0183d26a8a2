/* probe_drive.c - measures reads, writes and both at once on a drive. */
#include "base/clock.h"
#include "base/memory.h"
#include "io/file.h"
#include "machine/probe.h"

#define FILE_BYTES ((uint64_t)512 << 20)
#define REQUEST_MOST ((size_t)4 << 20)
#define REQUEST_SMALL ((size_t)1 << 20) /* bytes, when memory is scarce */
#define REQUEST_LEAST ((size_t)64 << 10)
enum { IN_FLIGHT = 8, REQUESTS = 4 }; /* REQUESTS: smallest file */

typedef struct drive {
    hil_io *io;
    hil_io_file *file;
    char *memory;   /* of IN_FLIGHT requests */
    size_t request; /* bytes of one */
    uint64_t bytes;
    double seconds;
} drive;

/* Which requests of a ring write, and the range of the file that each kind cycles through. */
typedef struct pass {
    bool write[IN_FLIGHT];
    uint64_t first[2], end[2]; /* by kind: read, write */
} pass;

static hil_status start(const drive *d, const pass *p, int slot, uint64_t at[2],
                        hil_io_request **request)
{
    bool write = p->write[slot];
    char *memory = d->memory + (size_t)slot * d->request;
    uint64_t offset = at[write];
    at[write] += d->request;
    if (at[write] + d->request > p->end[write]) at[write] = p->first[write];
    return write ? hil_io_write_start(d->file, offset, memory, d->request, request)
                 : hil_io_read_start(d->file, offset, memory, d->request, request);
}

/* Keeps all requests in flight for `most` bytes or until time is up. *speed: bytes per second. */
static hil_status run(const drive *d, const pass *p, uint64_t most, uint64_t *done, double *speed)
{
    hil_io_request *request[IN_FLIGHT] = {NULL};
    uint64_t at[2] = {p->first[0], p->first[1]}, started = 0;
    hil_status status = HIL_OK;
    double began = hil_clock_now();
    *done = 0;
    for (int slot = 0; status == HIL_OK; slot = (slot + 1) % IN_FLIGHT) {
        if (request[slot]) {
            status = hil_io_wait(request[slot]);
            request[slot] = NULL;
            *done += d->request;
        }
        if (status != HIL_OK || started + d->request > most || hil_clock_now() - began > d->seconds)
            break;
        status = start(d, p, slot, at, &request[slot]);
        started += d->request;
    }
    for (int slot = 0; slot < IN_FLIGHT; ++slot) {
        if (!request[slot]) continue;
        hil_status last = hil_io_wait(request[slot]);
        if (status == HIL_OK) status = last;
        *done += d->request;
    }
    *speed = (double)*done / (hil_clock_now() - began);
    return status;
}

static hil_status measure(const drive *d, hil_drive_speed *out)
{
    pass p = {.end = {d->bytes, d->bytes}};
    uint64_t written, done;
    for (int i = 0; i < IN_FLIGHT; ++i) p.write[i] = true;
    HIL_TRY(run(d, &p, d->bytes, &written, &out->write));
    HIL_TRY(hil_io_flush(d->file));
    for (int i = 0; i < IN_FLIGHT; ++i) p.write[i] = false;
    p.end[0] = written;
    HIL_TRY(run(d, &p, UINT64_MAX, &done, &out->read));
    /* Reads cycle through the first half, writes through the second. */
    uint64_t half = written / 2 / d->request * d->request;
    out->mixed = out->read < out->write ? out->read : out->write;
    if (half == 0) return HIL_OK;
    for (int i = 0; i < IN_FLIGHT; ++i) p.write[i] = i & 1;
    p.end[0] = p.first[1] = half;
    p.end[1] = written;
    HIL_TRY(run(d, &p, UINT64_MAX, &done, &out->mixed));
    return HIL_OK;
}

/* Small reads and writes in turn, one at a time. *seconds: of one. */
static hil_status time_call(const drive *d, double *seconds)
{
    double began = hil_clock_now();
    int count = 0;
    do {
        uint64_t offset = (uint64_t)count % (d->bytes / REQUEST_LEAST) * REQUEST_LEAST;
        hil_io_request *request;
        HIL_TRY(count & 1 ? hil_io_write_start(d->file, offset, d->memory, REQUEST_LEAST, &request)
                          : hil_io_read_start(d->file, offset, d->memory, REQUEST_LEAST, &request));
        HIL_TRY(hil_io_wait(request));
        ++count;
    } while (hil_clock_now() - began < d->seconds / 4);
    *seconds = (hil_clock_now() - began) / count;
    return HIL_OK;
}

hil_status hil_probe_drive_room(const char *path, uint64_t bytes, uint64_t memory,
                                hil_drive_room *out)
{
    uint64_t free;
    size_t request = hil_memory_available() >> 30 ? REQUEST_MOST : REQUEST_SMALL;
    *out = (hil_drive_room){0};
    HIL_TRY(hil_dir_free_bytes(path, &free));
    if (!memory) memory = UINT64_MAX;
    if (!bytes || bytes > free / 4) bytes = free / 4;
    if (bytes > FILE_BYTES) bytes = FILE_BYTES;
    while (request > REQUEST_LEAST && (IN_FLIGHT * request > memory || REQUESTS * request > bytes))
        request /= 2;
    out->request = request;
    out->bytes = bytes - bytes % (2 * request);
    if (out->bytes < REQUESTS * request) out->bytes = 0;
    return HIL_OK;
}

hil_status hil_probe_drive(const char *path, hil_io_kind io, const hil_drive_room *room,
                           hil_drive_speed *out)
{
    drive d = {.seconds = room->seconds, .request = room->request, .bytes = room->bytes};
    hil_io_options options;
    void *memory;
    *out = (hil_drive_speed){0};
    hil_io_defaults(&options);
    options.engine = io;
    options.buffer_bytes = IN_FLIGHT * d.request;
    hil_status status = HIL_OK;
    HIL_TRY_DONE(hil_io_create(&d.io, &options));
    HIL_TRY_DONE(hil_io_buffer_alloc(d.io, options.buffer_bytes, &memory));
    d.memory = memory;
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < options.buffer_bytes / sizeof state; ++i) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((uint64_t *)memory)[i] = state;
    }
    HIL_TRY_DONE(hil_io_open_scratch(d.io, path, d.bytes, &d.file));
    HIL_TRY_DONE(measure(&d, out));
    HIL_TRY_DONE(time_call(&d, &out->call));
    out->direct = hil_io_is_direct(d.file);
done:
    hil_io_close(d.file);
    hil_io_destroy(d.io);
    return status;
}
