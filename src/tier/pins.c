/* pins.c - a list of ranges by address; each is pinned once, by the thread that gets to it first.
 */
#include "tier/pins.h"

#include "base/alloc.h"
#include "base/memory.h"
#include "base/text.h"

#include <pthread.h>
#include <string.h>

#define SMALL ((size_t)1 << 20) /* joins its neighbour, in whatever order that is pinned */

typedef enum pin_state { REGISTERED, QUEUED, PINNING, PINNED } pin_state;

typedef struct pin {
    char *memory;
    size_t bytes;
    hil_pin_order order;
    pin_state state;
} pin;

struct hil_pins {
    hil_device *device;
    pthread_mutex_t lock; /* guards what follows; not held while a range is pinned */
    pthread_cond_t changed;
    pin *pin; /* by address; no two overlap */
    size_t count, room;
    size_t seen[HIL_PIN_ON_USE]; /* per order: none of so many ranges is queued */
    bool failed;                 /* a queued range could not be pinned */
};

hil_status hil_pins_create(hil_pins **out, hil_device *device)
{
    hil_pins *p;
    *out = NULL;
    HIL_TRY(HIL_ALLOC(1, &p));
    p->device = device;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    *out = p;
    return HIL_OK;
}

void hil_pins_destroy(hil_pins *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->count; ++i)
        if (p->pin[i].state == PINNED && p->pin[i].order != HIL_PIN_TOUCH)
            p->device->heap->unpin(p->device, p->pin[i].memory, p->pin[i].bytes);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    hil_free(p->pin);
    hil_free(p);
}

static char *end_of(const pin *one)
{
    return one->memory + one->bytes;
}

/* The first range that ends after this address. Lock held. */
static size_t find(const hil_pins *p, const char *memory)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (end_of(&p->pin[middle]) > memory)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Bytes up to the next address at which two pins may meet within a copy. */
static size_t to_boundary(const hil_pins *p, const char *memory, size_t bytes)
{
    size_t piece = p->device->pin_piece, rest = piece - (uintptr_t)memory % piece;
    return rest < bytes ? rest : bytes;
}

/* A place for one more range. Lock held. */
static hil_status make_room(hil_pins *p, size_t at)
{
    HIL_TRY(HIL_GROW(&p->pin, &p->room, p->count + 1));
    memmove(&p->pin[at + 1], &p->pin[at], (p->count - at) * sizeof *p->pin);
    ++p->count;
    memset(p->seen, 0, sizeof p->seen);
    return HIL_OK;
}

static bool may_join(const pin *before, const pin *one)
{
    bool small = before->bytes < SMALL || one->bytes < SMALL;
    if (before->order == HIL_PIN_TOUCH || one->order == HIL_PIN_TOUCH) small = false;
    return before->state == REGISTERED && end_of(before) == one->memory &&
           before->order != HIL_PIN_ON_USE && one->order != HIL_PIN_ON_USE &&
           (before->order == one->order || small);
}

/* Lock held. */
static hil_status insert(hil_pins *p, size_t at, const pin *one)
{
    if (at > 0 && may_join(&p->pin[at - 1], one)) {
        pin *before = &p->pin[at - 1];
        before->bytes += one->bytes;
        if (one->order < before->order) before->order = one->order;
        return HIL_OK;
    }
    HIL_TRY(make_room(p, at));
    p->pin[at] = *one;
    return HIL_OK;
}

hil_status hil_pins_add(hil_pins *p, char *memory, size_t bytes, hil_pin_order order)
{
    char *end = memory + bytes;
    hil_status status = HIL_OK;
    pthread_mutex_lock(&p->lock);
    while (memory < end && status == HIL_OK) {
        size_t at = find(p, memory), part = (size_t)(end - memory);
        const pin *next = at < p->count ? &p->pin[at] : NULL;
        if (next && next->memory <= memory) {
            memory = end_of(next);
            continue;
        }
        if (next && next->memory < end) part = (size_t)(next->memory - memory);
        if (order == HIL_PIN_ON_USE) part = to_boundary(p, memory, part);
        status = insert(p, at, &(pin){.memory = memory, .bytes = part, .order = order});
        memory += part;
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

static hil_status pin_range(hil_device *device, const pin *one)
{
    char text[32];
    if (one->order == HIL_PIN_TOUCH) { /* where the system refuses, the first write does it */
        (void)madvise(one->memory, one->bytes, MADV_POPULATE_WRITE);
        return HIL_OK;
    }
    hil_status status = device->heap->pin(device, one->memory, one->bytes);
    if (status != HIL_ERR_MEMORY) return status;
    return hil_fail(HIL_ERR_MEMORY,
                    "out of memory: cannot pin %s for copies to and from %s: give less "
                    "--host-memory, or raise the limits on this process (ulimit -l)",
                    hil_text_bytes(text, one->bytes), device->name);
}

/* Lock held, but for the time in which others may change the list. */
static hil_status pin_one(hil_pins *p, size_t at)
{
    pin one = p->pin[at];
    p->pin[at].state = PINNING;
    pthread_mutex_unlock(&p->lock);
    hil_status status = pin_range(p->device, &one);
    pthread_mutex_lock(&p->lock);
    p->pin[find(p, one.memory)].state = status == HIL_OK ? PINNED : one.state;
    pthread_cond_broadcast(&p->changed);
    return status;
}

hil_status hil_pins_pin_all(hil_pins *p)
{
    hil_status status = HIL_OK;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && status == HIL_OK; ++i)
        if (p->pin[i].state == REGISTERED && p->pin[i].order != HIL_PIN_ON_USE)
            status = pin_one(p, i);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* Cuts a range at all boundaries, so that several threads can pin it. Lock held. */
static hil_status cut(hil_pins *p, size_t at)
{
    for (size_t part;
         (part = to_boundary(p, p->pin[at].memory, p->pin[at].bytes)) < p->pin[at].bytes; ++at) {
        HIL_TRY(make_room(p, at)); /* a copy of it follows */
        p->pin[at].bytes = part;
        p->pin[at + 1].memory += part;
        p->pin[at + 1].bytes -= part;
    }
    return HIL_OK;
}

hil_status hil_pins_queue(hil_pins *p)
{
    hil_status status = HIL_OK;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count && status == HIL_OK; ++i) {
        if (p->pin[i].state != REGISTERED || p->pin[i].order == HIL_PIN_ON_USE) continue;
        status = cut(p, i);
        p->pin[i].state = QUEUED;
    }
    memset(p->seen, 0, sizeof p->seen);
    p->failed = false;
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* The next queued range; p->count: none. Lock held. */
static size_t next_queued(hil_pins *p)
{
    for (int order = HIL_PIN_FIRST; order < HIL_PIN_ON_USE; ++order)
        for (size_t *i = &p->seen[order]; *i < p->count; ++*i)
            if (p->pin[*i].state == QUEUED && (int)p->pin[*i].order == order) return *i;
    return p->count;
}

bool hil_pins_pin_next(hil_pins *p)
{
    pthread_mutex_lock(&p->lock);
    size_t at = p->failed ? p->count : next_queued(p);
    bool found = at < p->count;
    if (found && pin_one(p, at) != HIL_OK) p->failed = true;
    found &= !p->failed;
    pthread_mutex_unlock(&p->lock);
    return found;
}

hil_status hil_pins_wait(hil_pins *p, const void *memory, size_t bytes)
{
    const char *from = memory, *end = from + bytes;
    hil_status status = HIL_OK;
    pthread_mutex_lock(&p->lock);
    for (size_t i; (i = find(p, from)) < p->count && p->pin[i].memory < end && status == HIL_OK;) {
        if (p->pin[i].state == PINNED)
            from = end_of(&p->pin[i]);
        else if (p->pin[i].state == PINNING)
            pthread_cond_wait(&p->changed, &p->lock);
        else
            status = pin_one(p, i);
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}
