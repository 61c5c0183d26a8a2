/* links_engine.h - private to links*.c: the queues, and the engine that executes (a run) or only
   times (a rehearsal) their jobs. */
#ifndef HIL_TIER_LINKS_ENGINE_H
#define HIL_TIER_LINKS_ENGINE_H

#include "base/alloc.h"
#include "tier/links.h"
#include "tier/timeline.h"

#include <pthread.h>

typedef struct hil_queued {
    hil_job job;                      /* part[i].disk is invalid: use extent[i] */
    hil_extent extent[HIL_JOB_PARTS]; /* of READ and WRITE parts */
    hil_fence covers;                 /* jobs whose completion this job's completion implies */
    bool streams;                     /* the whole job goes to the link's device stream */
} hil_queued;

/* [Note: known]
   A queue keeps a job until the caller has waited for or followed a fence that implies its
   completion, even if the job completed long before. So the length of queues, and with it every
   allocation, depends on the order of calls and not on timing. A known job has at least started:
   hil_links_follow blocks until the jobs of its fence are on a stream, after all that they cover.
 */
typedef struct hil_queue {
    hil_queued *ring;  /* job n at n % capacity, for n in (known, submitted] */
    uint64_t capacity; /* a power of two */
    uint64_t submitted, started, retired, known;
} hil_queue;

typedef struct hil_links_engine {
    hil_status (*create)(hil_links *links);
    void (*destroy)(hil_links *links);
    /* The next three are called with the lock held. */
    void (*submitted)(hil_links *links, hil_link link);
    double (*wait)(hil_links *links, const hil_fence *fence); /* returns the seconds it took */
    void (*compute)(hil_links *links, double seconds);
    double (*now)(const hil_links *links);
} hil_links_engine;

extern const hil_links_engine hil_links_threads, hil_links_virtual;

struct hil_links {
    const hil_links_engine *engine;
    void *state; /* owned by the engine */
    hil_disk *disk;
    hil_device *device; /* NULL: the CPU, or a rehearsal */
    const char *device_base;
    size_t device_bytes;
    const char *more_base; /* see hil_links_extend */
    size_t more_bytes;
    hil_speeds speeds;
    pthread_mutex_t lock; /* guards everything below */
    hil_queue queue[HIL_LINKS];
    hil_account account;
    struct hil_timeline *timeline;
    hil_status status; /* the first failure */
    void (*failed)(void *context, hil_status status);
    void *failed_context;
    hil_memory_ready *ready; /* NULL: all memory is pinned */
    void *ready_context;
    char message[1024];
};

static inline hil_queued *hil_queue_at(const hil_queue *queue, uint64_t n)
{
    return &queue->ring[n & (queue->capacity - 1)];
}

/* Whether the fence is complete. Lock held. */
bool hil_links_retired(const hil_links *links, const hil_fence *fence);
/* Counts a stall of compute that lasted `seconds` until `end`. Lock held. */
void hil_links_account_wait(hil_links *links, hil_wait_reason reason, double seconds, double end);
/* Retires the oldest job of a link, which occupied it from `start` to `end`. Lock held. */
void hil_links_retire(hil_links *links, const hil_job *job, double start, double end);

/* links_streams.c: with a device only; lock held, and released while they wait. */
/* Records a mark after all compute issued so far; blocks while all marks are in use. `reason`: why
   compute stalls since the previous mark, or -1. */
hil_status hil_links_record(hil_links *links, int reason);
/* Compute issued from now on starts after the fence. */
hil_status hil_links_follow_streams(hil_links *links, const hil_fence *fence);

/* Bytes of a job's parts of one kind. */
uint64_t hil_job_bytes(const hil_job *job, hil_part_kind kind);
/* Whether the job's copies go to the device. */
bool hil_job_to_device(const hil_job *job);

#endif
