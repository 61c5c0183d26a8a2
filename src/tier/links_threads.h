/* links_threads.h - private to links_threads.c and links_streams.c: what the threads of links
   share. */
#ifndef HIL_TIER_LINKS_THREADS_H
#define HIL_TIER_LINKS_THREADS_H

#include "tier/links_engine.h"

/* The point in a device's stream where a job ends, or a mark. */
typedef struct hil_place {
    hil_event *event; /* NULL: no device */
    int users;        /* threads that make a stream wait for the event: it must not be reused */
    double over;      /* when its completion was observed */
    int reason;       /* of a mark: why compute stalled since the previous one; -1: no stall */
} hil_place;

/* A job that was started and is not retired. Job n of a link uses flight n - 1, modulo their
   number. */
typedef struct hil_flight {
    hil_queued queued;
    int transfers;
    hil_disk_transfer transfer[HIL_JOB_PARTS];
    double start;
    hil_place end;
    bool recorded; /* the event of `end` was recorded after the job's work on the stream */
} hil_flight;

/* The threads of a link. */
typedef struct hil_link_runner {
    hil_links *links;
    hil_link link;
    hil_stream stream; /* HIL_STREAMS: none */
    int threads;
    pthread_t thread[2]; /* starts, retires */
    bool alone;          /* thread[0] starts and retires */
    bool ended;          /* thread[0] will start no more jobs */
    pthread_cond_t wake, issue;
    uint64_t issued; /* jobs whose transfers were started */
    hil_flight flight[HIL_LINK_FLIGHTS];
    uint64_t disk_bytes; /* of jobs in flight */
    double marked;       /* busy time is accounted up to here */
    hil_fence followed;  /* fences the link's stream was made to wait for; COMPUTE: its stream */
} hil_link_runner;

/* A caller that is blocked in hil_links_wait or hil_links_follow. */
typedef struct hil_waiter {
    const hil_fence *fence;
    bool follows;
    pthread_cond_t wake;
    struct hil_waiter *next;
} hil_waiter;

/* Most marks in flight; then the caller blocks. */
#define HIL_MARKS 1024

typedef struct hil_link_runners {
    hil_link_runner runner[HIL_LINKS];
    hil_waiter *waiters;
    bool stopping;
    hil_place mark[HIL_MARKS]; /* mark n uses place n - 1, modulo HIL_MARKS */
} hil_link_runners;

/* links_threads.c */
/* Keeps the first failure and its message. Any thread, lock not held. */
void hil_links_keep_failure(hil_links *links, hil_status status);
/* Blocks until the fence is complete, or with `follows` until streams can wait for it; returns the
   seconds. Lock held. */
double hil_links_sleep(hil_links *links, const hil_fence *fence, bool follows);
/* Wakes the callers and link threads that can proceed. Lock held. */
void hil_links_wake(hil_links *links);

/* links_streams.c: events and marks of a device. */
hil_status hil_streams_create(hil_links *links);
void hil_streams_destroy(hil_links *links);
void *hil_streams_retire_marks(void *runner); /* thread function */
hil_stream hil_link_stream(hil_link link);    /* HIL_STREAMS: none */
bool hil_job_streams(const hil_links *links, const hil_job *job);

/* Whether streams can wait for the fence: each of its jobs is complete or on a stream. */
bool hil_fence_given(const hil_links *links, const hil_fence *fence);
/* The events a stream must wait for. Begin and end with the lock held, not held in between. */
typedef struct hil_dependencies {
    int count;
    hil_place *place[HIL_LINKS];
} hil_dependencies;
void hil_dependencies_begin(hil_links *links, const hil_fence *fence, hil_fence *followed,
                            hil_dependencies *out);
void hil_dependencies_end(hil_links *links, const hil_dependencies *dependencies);

/* Queues the job's device copies and its `run` on the link's stream. Lock not held. */
hil_status hil_flight_queue(hil_link_runner *c, hil_flight *flight,
                            const hil_dependencies *dependencies);
/* Whether the part is a copy from or to the device's memory. */
bool hil_part_streams(const hil_links *links, const hil_part *part);
/* When the last job of the flight's fence was complete, as far as recorded. */
double hil_flight_free(const hil_links *links, const hil_flight *flight);

#endif
