/* links_threads.h - the inside of the links that execute: what their threads share. */
#ifndef HIL_TIER_LINKS_THREADS_H
#define HIL_TIER_LINKS_THREADS_H

#include "tier/links_engine.h"

/* The end of a job, or a mark, in a stream of the device. */
typedef struct hil_place {
    hil_event *event; /* NULL: no device */
    int users;        /* threads that make a stream follow it: until then it must stay */
    double over;      /* when it was seen to be over */
    int reason;       /* of a mark: why computing waited since the one before; -1: it did not */
} hil_place;

/* A job that was started and is not retired. Job n of a link has flight n - 1. */
typedef struct hil_flight {
    hil_queued queued;
    int transfers;
    hil_disk_transfer transfer[HIL_JOB_PARTS];
    double start;
    hil_place end;
    bool recorded; /* the event of `end` is behind what the job gave to the stream */
} hil_flight;

/* The threads of a link. */
typedef struct hil_carrier {
    hil_links *links;
    hil_link link;
    hil_stream stream; /* HIL_STREAMS: none */
    int threads;
    pthread_t thread[2]; /* starts, retires */
    bool alone;          /* the first one does both */
    bool ended;          /* the first one has */
    pthread_cond_t wake, issue;
    uint64_t issued; /* jobs whose transfers are on their way */
    hil_flight flight[HIL_LINK_FLIGHTS];
    uint64_t disk_bytes; /* of jobs in flight */
    double marked;       /* busy until here is booked */
    hil_fence followed;  /* by the stream so far; on COMPUTE: by computing */
} hil_carrier;

/* Somebody in hil_links_wait or hil_links_follow. */
typedef struct hil_waiter {
    const hil_fence *fence;
    bool follows;
    pthread_cond_t wake;
    struct hil_waiter *next;
} hil_waiter;

/* How many marks computing may be behind; then the caller waits. */
#define HIL_MARKS 1024

typedef struct hil_carriers {
    hil_carrier carrier[HIL_LINKS];
    hil_waiter *waiters;
    bool stopping;
    hil_place mark[HIL_MARKS]; /* mark n has place n - 1 */
} hil_carriers;

/* links_threads.c */
void hil_links_keep_failure(hil_links *links, hil_status status); /* the lock is not held */
/* The rest with the lock held. */
double hil_links_sleep(hil_links *links, const hil_fence *fence, bool follows);
void hil_links_wake(hil_links *links); /* those who waited for what happened */

/* links_streams.c: events and marks of a device. */
hil_status hil_streams_create(hil_links *links);
void hil_streams_destroy(hil_links *links);
void *hil_streams_retire_marks(void *carrier); /* a thread's body */
hil_stream hil_stream_of(hil_link link);       /* HIL_STREAMS: none */
bool hil_job_streams(const hil_links *links, const hil_job *job);

/* Whether streams can be told to follow the fence: what is not over is on a stream. */
bool hil_fence_given(const hil_links *links, const hil_fence *fence);
/* What a stream must be told to follow, between begin and end with the lock not held. */
typedef struct hil_follows {
    int count;
    hil_place *place[HIL_LINKS];
} hil_follows;
void hil_follows_begin(hil_links *links, const hil_fence *fence, hil_fence *followed,
                       hil_follows *out);
void hil_follows_end(hil_links *links, const hil_follows *follows);

/* Queues copies of the device and what `run` queues; the lock is not held. */
hil_status hil_flight_queue(hil_carrier *c, hil_flight *flight, const hil_follows *follows);
/* A copy has an end in the device's memory. */
bool hil_part_streams(const hil_links *links, const hil_part *part);
/* When the last of what the flight's job waited for was over, as far as it is known. */
double hil_flight_free(const hil_links *links, const hil_flight *flight);

#endif
