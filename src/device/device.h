/* device.h - an accelerator: its own memory, streams of queued work, events, copies. The CPU is not
   a device (NULL): it computes synchronously in host memory. */
#ifndef HIL_DEVICE_DEVICE_H
#define HIL_DEVICE_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/fail.h"

#include <string.h>

typedef struct hil_device hil_device;
typedef struct hil_event hil_event; /* a point in a stream's work */

/* Work of one stream runs in order, streams run in parallel. One thread queues on a stream. */
typedef enum hil_stream {
    HIL_STREAM_COMPUTE, /* operations, and the store's arithmetic between them */
    HIL_STREAM_IN,      /* this and the rest: one for each link, in parallel with compute */
    HIL_STREAM_BACK,
    HIL_STREAM_OUT,
    HIL_STREAM_READ,
    HIL_STREAM_UPDATE,
    HIL_STREAM_WRITE,
    HIL_STREAM_GATHER,
    HIL_STREAM_REDUCE,
    HIL_STREAMS
} hil_stream;

/* All functions that take a stream only queue work and return. Thread-safe on different streams. */
typedef struct hil_device_heap {
    /* One arena, as large as the budget. 4096-byte aligned. */
    hil_status (*alloc)(hil_device *device, size_t bytes, void **out);
    void (*free)(hil_device *device, void *memory);
    /* Pins host memory in place, large ranges on several threads. It must begin and end at page
       boundaries. Thread-safe, also against those who use the memory. */
    hil_status (*pin)(hil_device *device, void *memory, size_t bytes);
    void (*unpin)(hil_device *device, void *memory, size_t bytes);
    /* Small zeroed host memory, pinned, that kernels write to: losses, sums of squares. */
    hil_status (*share)(hil_device *device, size_t bytes, void **out);
    void (*unshare)(hil_device *device, void *memory);
} hil_device_heap;

typedef struct hil_device_events {
    hil_status (*create)(hil_device *device, hil_event **out);
    void (*destroy)(hil_device *device, hil_event *event);
    /* The event completes after all work queued on the stream so far. Replaces an earlier record.
     */
    hil_status (*record)(hil_device *device, hil_stream stream, hil_event *event);
    /* Work queued on the stream from now on starts after the event's last record. */
    hil_status (*follow)(hil_device *device, hil_stream stream, hil_event *event);
    hil_status (*wait)(hil_device *device, hil_event *event); /* blocks the calling thread */
} hil_device_events;

typedef struct hil_device_queue {
    /* Between host and device, or on the device. Host memory must be pinned, or small. */
    hil_status (*copy)(hil_device *device, hil_stream stream, void *to, const void *from,
                       size_t bytes);
    hil_status (*zero)(hil_device *device, hil_stream stream, void *to, size_t bytes);
    /* Sets *when, in shared memory, to the time (hil_clock_now) at which the stream gets there. */
    hil_status (*stamp)(hil_device *device, hil_stream stream, double *when);
    /* Blocks until the compute stream is empty; returns errors that its kernels found. */
    hil_status (*finish)(hil_device *device);
} hil_device_queue;

/* Functions that a layer above has for the device. The layer names the table and knows its type. */
#define HIL_DEVICE_TABLES 4
typedef struct hil_device_table {
    const char *name; /* borrowed; NULL: free */
    const void *functions;
} hil_device_table;

struct hil_device {
    const hil_device_heap *heap;
    const hil_device_events *events;
    const hil_device_queue *queue;
    void (*close)(hil_device *device); /* waits for queued work */
    /* Replaces the compute stream by one of the caller's, as the driver names it, before anything
       is queued; it must exist until the device is closed. NULL: the device knows no others. */
    hil_status (*adopt)(hil_device *device, void *stream);
    hil_device_table table[HIL_DEVICE_TABLES];
    char name[64];        /* "NVIDIA H200" */
    unsigned char id[16]; /* unique to the device, the same in every process */
    size_t memory;        /* bytes in all */
    size_t available;     /* bytes free when it was opened, after its context */
    size_t outside;       /* bytes used outside the arena: context, libraries */
    bool fp8;             /* it computes products in 8 bits: [Note: FP8] in tensor/fp8.h */
    size_t pin_piece;     /* a copy may cross from one pinned range to the next at addresses that
                             are multiples of this */
};

/* Both are borrowed as long as the device is open. A name is attached once. */
static inline void hil_device_attach(hil_device *device, const char *name, const void *functions)
{
    int i = 0;
    while (i < HIL_DEVICE_TABLES && device->table[i].name) ++i;
    assert(i < HIL_DEVICE_TABLES);
    device->table[i].name = name;
    device->table[i].functions = functions;
}

/* NULL: the device has none of this name. */
static inline const void *hil_device_attached(const hil_device *device, const char *name)
{
    for (int i = 0; i < HIL_DEVICE_TABLES && device->table[i].name; ++i)
        if (strcmp(device->table[i].name, name) == 0) return device->table[i].functions;
    return NULL;
}

#ifdef __cplusplus
}
#endif
#endif
