/* device.h - where operations compute when that is not the CPU: memory of its own, streams of
   queued work, events, copies. The CPU itself is no device (NULL): it computes at once, in memory
   that everybody reaches. */
#ifndef HIL_DEVICE_DEVICE_H
#define HIL_DEVICE_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "base/fail.h"

typedef struct hil_device hil_device;
typedef struct hil_event hil_event; /* a point in a stream's work */

/* The work of a stream runs in order, streams run side by side. One thread queues on a stream. */
typedef enum hil_stream {
    HIL_STREAM_COMPUTE, /* operations, and what the store computes between them */
    HIL_STREAM_IN,      /* these move and update states beside it: one for each link */
    HIL_STREAM_BACK,
    HIL_STREAM_OUT,
    HIL_STREAM_READ,
    HIL_STREAM_UPDATE,
    HIL_STREAM_WRITE,
    HIL_STREAM_GATHER,
    HIL_STREAM_REDUCE,
    HIL_STREAMS
} hil_stream;

/* What follows only queues work and returns, but for free and the host's waits. Thread-safe as far
   as streams differ. */
typedef struct hil_device_heap {
    /* One arena, as large as the budget. 4096-byte aligned. */
    hil_status (*alloc)(hil_device *device, size_t bytes, void **out);
    void (*free)(hil_device *device, void *memory);
    /* Host memory that copies reach at full speed, made so in place: on several threads at once
       for large ranges. Memory must begin and end at pages. */
    hil_status (*pin)(hil_device *device, void *memory, size_t bytes);
    void (*unpin)(hil_device *device, void *memory, size_t bytes);
    /* Small pinned memory of the host that kernels write to: losses, sums of squares. Zeroed. */
    hil_status (*share)(hil_device *device, size_t bytes, void **out);
    void (*unshare)(hil_device *device, void *memory);
} hil_device_heap;

typedef struct hil_device_events {
    hil_status (*create)(hil_device *device, hil_event **out);
    void (*destroy)(hil_device *device, hil_event *event);
    /* The event is here: all that the stream was given before. Replaces its earlier place. */
    hil_status (*record)(hil_device *device, hil_stream stream, hil_event *event);
    /* What the stream is given from now on begins after the event, where it is now. */
    hil_status (*follow)(hil_device *device, hil_stream stream, hil_event *event);
    hil_status (*wait)(hil_device *device, hil_event *event); /* the host waits */
} hil_device_events;

typedef struct hil_device_queue {
    /* Between host and device, or on the device. The host's side is pinned, or small. */
    hil_status (*copy)(hil_device *device, hil_stream stream, void *to, const void *from,
                       size_t bytes);
    hil_status (*zero)(hil_device *device, hil_stream stream, void *to, size_t bytes);
    /* *when, in shared memory, becomes the time (hil_clock_now) at which the stream is there. */
    hil_status (*stamp)(hil_device *device, hil_stream stream, double *when);
    /* The host waits for the compute stream, and learns what queued kernels found wrong. */
    hil_status (*finish)(hil_device *device);
} hil_device_queue;

struct hil_device {
    const hil_device_heap *heap;
    const hil_device_events *events;
    const hil_device_queue *queue;
    void (*close)(hil_device *device);  /* after what is queued is done */
    const struct hil_device_ops *ops;   /* operations: ops/op.h */
    const struct hil_device_math *math; /* the store's arithmetic: store/store.h */
    char name[64];                      /* "NVIDIA H200" */
    unsigned char id[16];               /* the same in every process that has it, and only there */
    size_t memory;                      /* bytes in all */
    size_t available;                   /* that were free when it was opened, context taken */
    size_t outside;                     /* taken by it beside the arena: context, libraries */
};

#ifdef __cplusplus
}
#endif
#endif
