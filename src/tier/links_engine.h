/* links_engine.h - the parts of hil_links: queues, and what a real run and a rehearsal do with
   them. */
#ifndef HIL_TIER_LINKS_ENGINE_H
#define HIL_TIER_LINKS_ENGINE_H

#include "base/alloc.h"
#include "tier/links.h"
#include "tier/timeline.h"

#include <pthread.h>

typedef struct hil_queued {
    hil_job job;                      /* part[i].disk points nowhere */
    hil_extent extent[HIL_JOB_PARTS]; /* of the parts that have one */
    hil_fence covers;                 /* what is certainly over when this job is */
    bool streams;                     /* goes to the link's stream of the device as a whole */
} hil_queued;

/* [Note: known]
   A queue keeps a job until the caller has waited for or followed something that implies its end,
   even though the job may be long over. So how long queues get, and with it every allocation,
   follows from the order of calls and not from timing. By then the job was started, at least: a
   follow waits until what it follows is on a stream, and that is after what it covers. */
typedef struct hil_queue {
    hil_queued *ring;  /* job n at n % capacity, for n in (known, submitted] */
    uint64_t capacity; /* a power of two */
    uint64_t submitted, started, retired, known;
} hil_queue;

typedef struct hil_links_engine {
    hil_status (*create)(hil_links *links);
    void (*destroy)(hil_links *links);
    /* These four with the lock held. */
    void (*submitted)(hil_links *links, hil_link link);
    double (*wait)(hil_links *links, const hil_fence *fence); /* gives the seconds it took */
    void (*compute)(hil_links *links, double seconds);
    double (*now)(const hil_links *links);
} hil_links_engine;

extern const hil_links_engine hil_links_threads, hil_links_virtual;

struct hil_links {
    const hil_links_engine *engine;
    void *state; /* the engine's */
    hil_disk *disk;
    hil_device *device; /* NULL: the CPU, or a rehearsal */
    const char *device_base;
    size_t device_bytes;
    hil_speeds speeds;
    pthread_mutex_t lock; /* of everything below */
    hil_queue queue[HIL_LINKS];
    hil_account account;
    struct hil_timeline *timeline;
    hil_status status; /* the first failure */
    void (*failed)(void *context, hil_status status);
    void *failed_context;
    char message[1024];
};

static inline hil_queued *hil_queue_at(const hil_queue *queue, uint64_t n)
{
    return &queue->ring[n & (queue->capacity - 1)];
}

/* With the lock held. */
bool hil_links_retired(const hil_links *links, const hil_fence *fence);
/* Computing waited for so many seconds until `end`. */
void hil_links_account_wait(hil_links *links, hil_wait_reason reason, double seconds, double end);
/* A job of the link is over: books it. Its time on the link began at `start`. */
void hil_links_retire(hil_links *links, const hil_job *job, double start, double end);

/* links_streams.c, with a device and the lock held, which they may let go for a while. */
/* A mark behind all computing told so far, when there is room for it in the queue. `reason`: why
   computing waits since the mark before, or -1. */
hil_status hil_links_record(hil_links *links, int reason);
/* Computing told from now on begins after the fence. */
hil_status hil_links_follow_streams(hil_links *links, const hil_fence *fence);

/* Bytes of a job. */
uint64_t hil_job_bytes(const hil_job *job, hil_part_kind kind);
/* Which way the job's copies go. */
bool hil_job_to_device(const hil_job *job);

#endif
