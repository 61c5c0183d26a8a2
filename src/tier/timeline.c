/* timeline.c - buffers spans and writes them as lines of JSON when the buffer is full. */
#include "tier/timeline.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SPANS 4096
#define NAME_MAX_BYTES 48
#define LINE_MAX_BYTES 256
#define BLOCK_BYTES ((size_t)64 << 10)

typedef struct span {
    int track;
    char name[NAME_MAX_BYTES];
    double start, end;
    uint64_t bytes;
} span;

struct hil_timeline {
    int fd;
    int failed; /* errno of the first write that failed; later spans are dropped */
    double origin;
    pthread_mutex_t lock; /* guards what follows */
    int spans;
    span span[SPANS];
    size_t filled;
    char block[BLOCK_BYTES];
};

static const char *const track_names[HIL_TRACKS] = {
    [HIL_LINK_FETCH] = "fetch: disk to host",
    [HIL_LINK_STASH] = "stash: host to disk",
    [HIL_LINK_IN] = "in: host to device",
    [HIL_LINK_BACK] = "back: host to device",
    [HIL_LINK_OUT] = "out: device to host",
    [HIL_LINK_READ] = "update: read states",
    [HIL_LINK_UPDATE] = "update: arithmetic",
    [HIL_LINK_WRITE] = "update: write states",
    [HIL_LINK_GATHER] = "gather: weights from all ranks",
    [HIL_LINK_REDUCE] = "reduce: gradients over ranks",
    [HIL_LINK_SAVE] = "save: states to a checkpoint",
    [HIL_TRACK_COMPUTE] = "compute",
    [HIL_TRACK_OPERATIONS] = "operations",
    [HIL_TRACK_WAIT] = "waiting",
};

static void write_block(hil_timeline *t)
{
    for (size_t at = 0; at < t->filled && !t->failed;) {
        ssize_t n = write(t->fd, t->block + at, t->filled - at);
        if (n >= 0)
            at += (size_t)n;
        else if (errno != EINTR)
            t->failed = errno;
    }
    t->filled = 0;
}

/* Lines are written whole: one that a kill cuts off would make the file unreadable. */
HIL_PRINTF(2, 3) static void add_line(hil_timeline *t, const char *format, ...)
{
    if (t->filled + LINE_MAX_BYTES > BLOCK_BYTES) write_block(t);
    va_list list;
    va_start(list, format);
    int size = vsnprintf(t->block + t->filled, LINE_MAX_BYTES, format, list);
    va_end(list);
    t->filled += (size_t)size;
}

/* Rounds ends, not lengths, so that adjacent spans do not overlap. */
static void add_span(hil_timeline *t, const span *s)
{
    long long start = llround(fmax(s->start - t->origin, 0) * 1e9);
    long long length = llround((s->end - t->origin) * 1e9) - start;
    char bytes[48] = "";
    if (s->track < HIL_LINK_COMPUTE)
        snprintf(bytes, sizeof bytes, ", \"args\": {\"bytes\": %llu}",
                 (unsigned long long)s->bytes);
    if (length < 0) length = 0;
    add_line(t,
             ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %lld.%03lld, "
             "\"dur\": %lld.%03lld%s}",
             s->name, s->track + 1, start / 1000, start % 1000, length / 1000, length % 1000,
             bytes);
}

static void write_spans(hil_timeline *t)
{
    for (int i = 0; i < t->spans; ++i) add_span(t, &t->span[i]);
    t->spans = 0;
    write_block(t);
}

static void add_head(hil_timeline *t)
{
    add_line(t, "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, "
                "\"args\": {\"name\": \"hilbert\"}}");
    for (int i = 0; i < HIL_TRACKS; ++i) {
        add_line(t,
                 ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, "
                 "\"args\": {\"name\": \"%s\"}}",
                 i + 1, track_names[i]);
        int place = i >= HIL_TRACK_COMPUTE ? i - HIL_TRACKS : i; /* what is no link on top */
        add_line(t,
                 ",\n{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, "
                 "\"args\": {\"sort_index\": %d}}",
                 i + 1, place);
    }
    write_block(t);
}

hil_status hil_timeline_open(hil_timeline **out, const char *path, double origin)
{
    *out = NULL;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return hil_fail(HIL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    hil_timeline *t;
    hil_status status = HIL_ALLOC(1, &t);
    if (status != HIL_OK) {
        close(fd);
        return status;
    }
    t->fd = fd;
    t->origin = origin;
    pthread_mutex_init(&t->lock, NULL);
    add_head(t);
    *out = t;
    return HIL_OK;
}

/* Replaces characters that JSON would have to escape by '?'. */
static void copy_name(char to[NAME_MAX_BYTES], const char *from)
{
    int i = 0;
    for (; i < NAME_MAX_BYTES - 1 && from[i]; ++i) {
        bool plain = from[i] >= ' ' && from[i] <= '~' && from[i] != '"' && from[i] != '\\';
        to[i] = plain ? from[i] : '?';
    }
    to[i] = 0;
}

void hil_timeline_add(hil_timeline *t, int track, const char *name, double start, double end,
                      uint64_t bytes)
{
    pthread_mutex_lock(&t->lock);
    if (t->spans == SPANS) write_spans(t);
    span *s = &t->span[t->spans++];
    *s = (span){.track = track, .start = start, .end = end, .bytes = bytes};
    copy_name(s->name, name ? name : track_names[track]);
    pthread_mutex_unlock(&t->lock);
}

hil_status hil_timeline_flush(hil_timeline *t)
{
    pthread_mutex_lock(&t->lock);
    write_spans(t);
    int failed = t->failed;
    pthread_mutex_unlock(&t->lock);
    if (!failed) return HIL_OK;
    return hil_fail(HIL_ERR_IO, "cannot write the timeline: %s", strerror(failed));
}

void hil_timeline_close(hil_timeline *t)
{
    if (!t) return;
    write_spans(t);
    add_line(t, "\n]\n");
    write_block(t);
    close(t->fd);
    pthread_mutex_destroy(&t->lock);
    hil_free(t);
}
