/* device_threads.c - streams as threads: each executes the entries of its queue. */
#include "device/device_threads.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/philox.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE ((size_t)4096)
/* Most bytes in a stream's queue; a caller that queues more blocks, as with a GPU. */
#define QUEUE_BYTES ((size_t)1 << 20)
#define ALIGN ((size_t)64)
/* Larger arenas are not guarded: changing their protection takes too long. */
#define GUARD_BYTES ((size_t)64 << 20)
#define PIN_PIECE ((size_t)1 << 20) /* small, so that tests cross it */
#define ANYTHING 0xff               /* initial bytes of arenas: NaN in any dtype */

typedef enum range_kind { ARENA, PINNED, SHARED } range_kind;
typedef struct range {
    range_kind kind;
    char *memory;
    size_t bytes;
} range;

/* An entry of a queue, followed by its arguments. */
typedef struct entry {
    hil_status (*function)(void *args); /* NULL: only waits, or pads the end of the queue */
    size_t bytes;                       /* of the entry in the queue */
    hil_stream follows;
    uint64_t place; /* entries that that stream must have completed first */
} entry;

typedef struct stream {
    struct threads *device;
    hil_stream id;
    bool started;
    pthread_t thread;
    pthread_cond_t changed;
    char *queue;          /* aligned; `from` and `to` count all bytes ever */
    uint64_t from, to;    /* taken out, put in */
    uint64_t given, done; /* entries */
    uint64_t draws;
} stream;

struct hil_event {
    hil_stream stream;
    uint64_t place;
};

typedef struct threads {
    hil_device device;    /* first */
    pthread_mutex_t lock; /* guards everything */
    stream stream[HIL_STREAMS];
    void *queues;
    range *ranges;
    size_t range_count, range_capacity;
    int working; /* streams that may touch arenas */
    bool stopping;
    uint64_t seed;
    unsigned delay;
    hil_status status; /* the first failure */
    char message[1024];
} threads;

static threads *threads_of(hil_device *device)
{
    return (threads *)(void *)device;
}

static size_t round_up(size_t bytes, size_t align)
{
    return (bytes + align - 1) / align * align;
}

static void guard(const threads *d, int protection)
{
    for (size_t i = 0; i < d->range_count; ++i)
        if (d->ranges[i].kind == ARENA && d->ranges[i].bytes <= GUARD_BYTES)
            (void)mprotect(d->ranges[i].memory, d->ranges[i].bytes, protection);
}

/* The range that contains these bytes, or NULL. Lock held. */
static const range *find_range(const threads *d, const void *memory, size_t bytes)
{
    const char *first = memory;
    for (size_t i = 0; i < d->range_count; ++i) {
        const range *r = &d->ranges[i];
        if (first >= r->memory && first + bytes <= r->memory + r->bytes) return r;
    }
    return NULL;
}

static hil_status add_range(threads *d, range_kind kind, void *memory, size_t bytes)
{
    pthread_mutex_lock(&d->lock);
    hil_status status = HIL_GROW(&d->ranges, &d->range_capacity, d->range_count + 1);
    if (status == HIL_OK)
        d->ranges[d->range_count++] = (range){.kind = kind, .memory = memory, .bytes = bytes};
    if (status == HIL_OK && !d->working) guard(d, PROT_NONE);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* Returns the size of the removed range. */
static size_t remove_range(threads *d, range_kind kind, const void *memory)
{
    size_t bytes = 0;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->range_count; ++i) {
        if (d->ranges[i].kind != kind || d->ranges[i].memory != memory) continue;
        bytes = d->ranges[i].bytes;
        d->ranges[i] = d->ranges[--d->range_count];
        break;
    }
    pthread_mutex_unlock(&d->lock);
    assert(bytes > 0);
    return bytes;
}

static hil_status take_memory(threads *d, range_kind kind, size_t bytes, void **out)
{
    bytes = round_up(bytes ? bytes : 1, PAGE);
    HIL_TRY(hil_memory_map(bytes, out));
    if (kind == ARENA && bytes <= GUARD_BYTES) memset(*out, ANYTHING, bytes);
    hil_status status = add_range(d, kind, *out, bytes);
    if (status == HIL_OK) return HIL_OK;
    hil_memory_unmap(*out, bytes);
    *out = NULL;
    return status;
}

static hil_status alloc(hil_device *device, size_t bytes, void **out)
{
    return take_memory(threads_of(device), ARENA, bytes, out);
}

static void free_arena(hil_device *device, void *memory)
{
    if (memory) hil_memory_unmap(memory, remove_range(threads_of(device), ARENA, memory));
}

static hil_status share(hil_device *device, size_t bytes, void **out)
{
    return take_memory(threads_of(device), SHARED, bytes, out);
}

static void free_shared(hil_device *device, void *memory)
{
    if (memory) hil_memory_unmap(memory, remove_range(threads_of(device), SHARED, memory));
}

static hil_status pin(hil_device *device, void *memory, size_t bytes)
{
    threads *d = threads_of(device);
    const char *first = memory;
    bool twice = false;
    if ((uintptr_t)memory % PAGE || bytes % PAGE || !bytes)
        return hil_fail(HIL_ERR_USAGE, "cannot pin %zu bytes at %p: not whole pages", bytes,
                        memory);
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->range_count; ++i)
        twice |=
            first < d->ranges[i].memory + d->ranges[i].bytes && d->ranges[i].memory < first + bytes;
    pthread_mutex_unlock(&d->lock);
    if (twice)
        return hil_fail(HIL_ERR_USAGE, "cannot pin %zu bytes at %p: pinned already", bytes, memory);
    return add_range(d, PINNED, memory, bytes);
}

static void unpin(hil_device *device, void *memory, size_t bytes)
{
    size_t pinned = remove_range(threads_of(device), PINNED, memory);
    assert(pinned == bytes);
    (void)pinned, (void)bytes;
}

static void keep_failure(threads *d, hil_status status)
{
    if (d->status != HIL_OK) return;
    d->status = status;
    snprintf(d->message, sizeof d->message, "%s", hil_status_message());
}

/* Returns the first failure. Lock held. */
static hil_status report_failure(const threads *d)
{
    return d->status == HIL_OK ? HIL_OK : hil_fail(d->status, "%s", d->message);
}

/* Delays the stream at random. Lock held on entry and return. */
static void delay_stream(stream *s)
{
    threads *d = s->device;
    uint32_t word[4];
    if (!d->delay) return;
    hil_philox(d->seed, s->draws++, (uint64_t)s->id, word);
    struct timespec pause = {.tv_nsec = (long)(word[1] % (d->delay + 1)) * 1000};
    if (word[0] & 1) return;
    pthread_mutex_unlock(&d->lock);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&d->lock);
}

/* Executes the oldest entry. Lock held on entry and return. */
static void execute(stream *s)
{
    threads *d = s->device;
    entry *e = (entry *)(void *)(s->queue + s->from % QUEUE_BYTES);
    stream *other = &d->stream[e->follows];
    while (other->done < e->place) pthread_cond_wait(&other->changed, &d->lock);
    if (e->function && d->status == HIL_OK) {
        delay_stream(s);
        if (d->working++ == 0) guard(d, PROT_READ | PROT_WRITE);
        pthread_mutex_unlock(&d->lock);
        hil_status status = e->function((char *)e + round_up(sizeof *e, ALIGN));
        pthread_mutex_lock(&d->lock);
        if (status != HIL_OK) keep_failure(d, status);
        if (--d->working == 0) guard(d, PROT_NONE);
    }
    s->from += e->bytes;
    ++s->done;
    pthread_cond_broadcast(&s->changed);
}

static void *run_stream(void *argument)
{
    stream *s = argument;
    threads *d = s->device;
    pthread_mutex_lock(&d->lock);
    while (!d->stopping || s->done < s->given) {
        if (s->done < s->given)
            execute(s);
        else
            pthread_cond_wait(&s->changed, &d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* Blocks until the queue has room for `bytes`. Lock held; fill the entry before releasing it. */
static entry *reserve(stream *s, size_t bytes)
{
    while (s->to + bytes - s->from > QUEUE_BYTES) pthread_cond_wait(&s->changed, &s->device->lock);
    entry *e = (entry *)(void *)(s->queue + s->to % QUEUE_BYTES);
    *e = (entry){.bytes = bytes};
    s->to += bytes;
    ++s->given;
    pthread_cond_broadcast(&s->changed);
    return e;
}

static void enqueue(threads *d, hil_stream id, const entry *what, const void *args, size_t bytes)
{
    stream *s = &d->stream[id];
    size_t head = round_up(sizeof(entry), ALIGN), whole = head + round_up(bytes, ALIGN);
    pthread_mutex_lock(&d->lock);
    size_t rest = QUEUE_BYTES - s->to % QUEUE_BYTES;
    if (rest < whole) (void)reserve(s, rest);
    entry *e = reserve(s, whole);
    e->function = what->function;
    e->follows = what->follows;
    e->place = what->place;
    if (bytes) memcpy((char *)e + head, args, bytes);
    pthread_mutex_unlock(&d->lock);
}

hil_status hil_device_threads_call(hil_device *device, hil_stream id,
                                   hil_status (*function)(void *args), const void *args,
                                   size_t bytes)
{
    assert(bytes <= HIL_DEVICE_THREADS_ARGS);
    enqueue(threads_of(device), id, &(entry){.function = function}, args, bytes);
    return HIL_OK;
}

void hil_device_threads_delay(hil_device *device, uint64_t seed, unsigned microseconds)
{
    threads *d = threads_of(device);
    pthread_mutex_lock(&d->lock);
    d->seed = seed;
    d->delay = microseconds < 1000000 ? microseconds : 999999;
    pthread_mutex_unlock(&d->lock);
}

static hil_status create_event(hil_device *device, hil_event **out)
{
    (void)device;
    return HIL_ALLOC(1, out);
}

static void destroy_event(hil_device *device, hil_event *event)
{
    (void)device;
    hil_free(event);
}

static hil_status record(hil_device *device, hil_stream id, hil_event *event)
{
    threads *d = threads_of(device);
    pthread_mutex_lock(&d->lock);
    event->stream = id;
    event->place = d->stream[id].given;
    pthread_mutex_unlock(&d->lock);
    return HIL_OK;
}

static hil_status follow(hil_device *device, hil_stream id, hil_event *event)
{
    threads *d = threads_of(device);
    pthread_mutex_lock(&d->lock);
    entry e = {.follows = event->stream, .place = event->place};
    pthread_mutex_unlock(&d->lock);
    enqueue(d, id, &e, NULL, 0);
    return HIL_OK;
}

static hil_status wait_for(hil_device *device, hil_event *event)
{
    threads *d = threads_of(device);
    pthread_mutex_lock(&d->lock);
    stream *s = &d->stream[event->stream];
    uint64_t place = event->place;
    while (s->done < place) pthread_cond_wait(&s->changed, &d->lock);
    hil_status status = report_failure(d);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static hil_status finish(hil_device *device)
{
    hil_event now;
    HIL_TRY(record(device, HIL_STREAM_COMPUTE, &now));
    return wait_for(device, &now);
}

typedef struct movement {
    void *to;
    const void *from; /* NULL: zeros */
    size_t bytes;
} movement;

static hil_status move(void *argument)
{
    const movement *m = argument;
    if (m->from)
        memcpy(m->to, m->from, m->bytes);
    else
        memset(m->to, 0, m->bytes);
    return HIL_OK;
}

/* Whether all of it is the device's, or pinned, perhaps in several ranges: see
   hil_device.pin_piece. Lock held. */
static bool is_known(const threads *d, const void *memory, size_t bytes)
{
    for (size_t at = 0, part; at < bytes; at += part) {
        const char *piece = (const char *)memory + at;
        part = PIN_PIECE - (uintptr_t)piece % PIN_PIECE;
        if (part > bytes - at) part = bytes - at;
        if (!find_range(d, piece, part)) return false;
    }
    return true;
}

static bool in_arena(const range *r)
{
    return r && r->kind == ARENA;
}

static hil_status copy(hil_device *device, hil_stream id, void *to, const void *from, size_t bytes)
{
    threads *d = threads_of(device);
    if (!bytes) return HIL_OK;
    pthread_mutex_lock(&d->lock);
    bool meets = in_arena(find_range(d, to, bytes)) || in_arena(find_range(d, from, bytes));
    bool quick =
        bytes <= HIL_DEVICE_THREADS_SMALL || (is_known(d, to, bytes) && is_known(d, from, bytes));
    pthread_mutex_unlock(&d->lock);
    if (!meets)
        return hil_fail(HIL_ERR_USAGE, "a copy of %zu bytes from %p to %p is none of the device's",
                        bytes, from, to);
    if (!quick)
        return hil_fail(HIL_ERR_USAGE, "a copy of %zu bytes from %p to %p: memory is not pinned",
                        bytes, from, to);
    movement m = {.to = to, .from = from, .bytes = bytes};
    return hil_device_threads_call(device, id, move, &m, sizeof m);
}

static hil_status zero(hil_device *device, hil_stream id, void *to, size_t bytes)
{
    threads *d = threads_of(device);
    if (!bytes) return HIL_OK;
    pthread_mutex_lock(&d->lock);
    const range *r = find_range(d, to, bytes);
    pthread_mutex_unlock(&d->lock);
    if (!r || r->kind == PINNED)
        return hil_fail(HIL_ERR_USAGE, "%zu bytes at %p are none of the device's", bytes, to);
    return hil_device_threads_call(device, id, move, &(movement){.to = to, .bytes = bytes},
                                   sizeof(movement));
}

static hil_status note_time(void *argument)
{
    **(double **)argument = hil_clock_now();
    return HIL_OK;
}

static hil_status stamp(hil_device *device, hil_stream id, double *when)
{
    return hil_device_threads_call(device, id, note_time, &when, sizeof(when));
}

static void close_device(hil_device *device)
{
    threads *d = threads_of(device);
    pthread_mutex_lock(&d->lock);
    d->stopping = true;
    for (int i = 0; i < HIL_STREAMS; ++i) pthread_cond_broadcast(&d->stream[i].changed);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < HIL_STREAMS; ++i)
        if (d->stream[i].started) pthread_join(d->stream[i].thread, NULL);
    for (int i = 0; i < HIL_STREAMS; ++i) pthread_cond_destroy(&d->stream[i].changed);
    pthread_mutex_destroy(&d->lock);
    hil_memory_unmap(d->queues, HIL_STREAMS * QUEUE_BYTES);
    hil_free(d->ranges);
    hil_free(d);
}

static const hil_device_heap heap = {
    .alloc = alloc,
    .free = free_arena,
    .pin = pin,
    .unpin = unpin,
    .share = share,
    .unshare = free_shared,
};

static const hil_device_events events = {
    .create = create_event,
    .destroy = destroy_event,
    .record = record,
    .follow = follow,
    .wait = wait_for,
};

static const hil_device_queue queue = {
    .copy = copy,
    .zero = zero,
    .stamp = stamp,
    .finish = finish,
};

/* The thread blocks all signals: handlers run on the program's own threads. */
static hil_status start_stream(stream *s)
{
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    int error = pthread_create(&s->thread, NULL, run_stream, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return hil_fail(HIL_ERR_MEMORY, "cannot start a thread for a stream: %s", strerror(error));
    s->started = true;
    return HIL_OK;
}

hil_status hil_device_threads_open(hil_device **out)
{
    hil_status status;
    threads *d = NULL;
    *out = NULL;
    HIL_TRY_DONE(HIL_ALLOC(1, &d));
    d->device.heap = &heap;
    d->device.events = &events;
    d->device.queue = &queue;
    d->device.close = close_device;
    d->device.memory = d->device.available = (size_t)hil_memory_available();
    d->device.fp8 = true;
    d->device.pin_piece = PIN_PIECE;
    snprintf(d->device.name, sizeof d->device.name, "threads");
    memcpy(d->device.id, "a machine's RAM", sizeof d->device.id);
    pthread_mutex_init(&d->lock, NULL);
    for (int i = 0; i < HIL_STREAMS; ++i) {
        d->stream[i].device = d;
        d->stream[i].id = (hil_stream)i;
        pthread_cond_init(&d->stream[i].changed, NULL);
    }
    HIL_TRY_DONE(hil_memory_map(HIL_STREAMS * QUEUE_BYTES, &d->queues));
    for (int i = 0; i < HIL_STREAMS; ++i) {
        d->stream[i].queue = (char *)d->queues + (size_t)i * QUEUE_BYTES;
        HIL_TRY_DONE(start_stream(&d->stream[i]));
    }
    *out = &d->device;
    d = NULL;
done:
    if (d) close_device(&d->device);
    return status;
}
